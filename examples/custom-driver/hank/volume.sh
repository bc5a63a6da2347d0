#!/bin/sh
# Gets the events of the codon as lines of JSON; what it prints is the answer of the sentinel.
capitals=$(tr -cd 'A-Z' | wc -c)
echo "$((capitals)) capitals"
