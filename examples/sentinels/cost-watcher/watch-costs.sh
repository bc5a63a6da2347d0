#!/bin/sh
# Tells what the codon has cost so far, and asks to pause the run at MOST_DOLLARS.
spent=$(sed 's/.*"totalCost":\([0-9.eE+-]*\).*/\1/')
awk -v spent="$spent" -v most="${MOST_DOLLARS:-0.5}" 'BEGIN {
  printf "{\"text\": \"$%.4f of $%.2f\"", spent, most
  if (spent + 0 >= most + 0) printf ", \"ask\": \"pause\", \"reason\": \"$%.4f are spent\"", spent
  print "}"
}'
