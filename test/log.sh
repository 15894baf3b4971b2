#!/bin/bash
# Checks for what servers report only in their logs: leaks, crashes, failed assertions.  Prints TAP.
# test/log.sh LOG ...

echo 1..1
if grep -E 'WARNING:.*gkmeans|was terminated by signal|PANIC:|TRAP:' "$@" >&2; then
    echo 'not ok 1 - no leak and no crash in the logs of the servers'
else
    echo 'ok 1 - no leak and no crash in the logs of the servers'
fi
