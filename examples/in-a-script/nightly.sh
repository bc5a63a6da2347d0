#!/bin/sh
# Runs a hank without a terminal, and says what its end asks for: sh nightly.sh DIR
set -u
dir=${1:?usage: nightly.sh DIR}

hankweave run "$dir" --headless --quiet
code=$?

hankweave report "$dir" >"$dir/night.md"
case $code in
0) echo "done, see $dir/night.md" ;;
3)
    echo "ready for a person:"
    hankweave status "$dir" | sed -n '/^next\|waits for\|^  hankweave/p'
    ;;
130 | 143) echo "stopped; the next run continues" ;;
*)
    echo "failed with $code:"
    hankweave logs "$dir" | tail -n 5
    ;;
esac
exit $code
