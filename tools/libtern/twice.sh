#!/bin/sh
# Two programs with two models at once: twice.sh HELLO MODEL
set -eu
out=$(mktemp)
trap 'rm -f "$out"' EXIT
"$1" > "$out" &
first=$!
second=$("$1" "$2" "What is the capital of Spain?")
wait $first
cat "$out"
echo "$second"
