#!/bin/sh
# Asks to stop the codon when an event on standard input names a path that must not be touched. Prints nothing otherwise.
if grep -Eq '"(path|file_path)":"([^"]*/)?(\.env|id_rsa)"'; then
  echo '{"ask": "stop", "reason": "it touches secrets", "text": "Stopped: the agent touches secrets."}'
fi
