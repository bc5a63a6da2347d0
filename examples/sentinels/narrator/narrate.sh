#!/bin/sh
# Tells the events on standard input in plain words, one line for each.
# Quotes inside of texts are escaped in JSON, so what is looked for here begins an event or a field of one.
sed 's/,{"seq":/\
{"seq":/g' | sed -n \
  -e 's/.*"type":"file.updated","data":{"path":"\([^"]*\)".*"action":"\([a-z]*\)".*/- \1 was \2/p' \
  -e 's/.*"type":"assistant.action".*"action":"message","content":"\(\([^"\\]\|\\.\)*\)".*/- it said: \1/p' \
  -e 's/.*"type":"assistant.action".*"action":"tool_use".*"toolName":"\([^"]*\)".*/- it used \1/p'
