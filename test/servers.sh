#!/bin/bash
# Runs one test of whole servers and prints TAP.
# test/servers.sh PG_CONFIG FOLDER test/t/FILE.pl: run from the top of the sources, not as root.
#
# Its servers lie in FOLDER.  TEMP_CONFIG may name a file of further settings for them, such
# as gkmeans.engine = cuda.

set -eu
programs=$("$1" --bindir)
pgxs=$(dirname "$("$1" --pgxs)")/../test
folder=$2
mkdir -p "$folder"
export PATH=$programs:$PATH PERL5LIB=$pgxs/perl${PERL5LIB:+:$PERL5LIB} PG_REGRESS=$pgxs/regress/pg_regress
# What is waited for comes; a busy machine takes its time.
export PG_TEST_TIMEOUT_DEFAULT=${PG_TEST_TIMEOUT_DEFAULT:-600}
# Tests beside this one listen at other ports.
export PG_TEST_PORT_DIR=${PG_TEST_PORT_DIR:-$(dirname "$folder")/ports}
export TESTDIR=$folder TESTDATADIR=$folder/tmp_check TESTLOGDIR=$folder/log
exec perl "$3"
