# Counts and shows the results of tests, for scripts/test.  Each test has left its TAP and its error output.

passed=0
failed=0
skipped=0

# Counts the TAP of a test: passed, failed, skipped.  A test that fails without reporting a
# failure counts as one failed test; a test that is skipped as a whole counts as one skipped test.
count_tap() {
    perl -MTAP::Parser -e '
        my ($file, $status) = @ARGV;
        open my $handle, "<", $file or die $!;
        my $tap = do { local $/; <$handle> } // "";
        my $parser = TAP::Parser->new({ tap => $tap eq "" ? "Bail out!\n" : $tap });
        my $bailed = 0;
        while (my $result = $parser->next) { $bailed ||= $result->is_bailout; }
        my $skipped = () = $parser->skipped;
        my $passed = () = $parser->passed;
        my $failed = () = $parser->failed;
        my $planned = $parser->tests_planned // 0;
        $failed += $planned - $parser->tests_run if $planned > $parser->tests_run;
        $failed++ if !$failed && ($status != 0 || $bailed || $parser->parse_errors);
        $skipped++ if $parser->skip_all;
        $passed -= $parser->skipped;
        print "$passed $failed $skipped\n";' "$1" "$2"
}

# Shows the failures of a test: failed tests, a bail-out, the plan, and the end of its error output.
show_failure() {
    local tap=$1
    grep -E -A 8 '^ *not ok' "$tap" | head -60 | sed 's/^/    /' || true
    grep -E '^Bail out!' "$tap" | sed 's/^/    /' || true
    if ! grep -Eq '^ *not ok|^Bail out!' "$tap"; then
        say "    it ended after: $(tail -n 1 "$tap")"
        say "    its plan: $(grep -E '^1\.\.' "$tap" || echo none)"
    fi
    tail -n 25 "$tap.err" | sed 's/^/    /'
}

# Reports a test that has ended, and adds up its results.
report() {
    local name=$1 tap good bad left skips=''
    tap=$(file_of "$name")
    read -r good bad left <<< "$(count_tap "$tap" "${status_of[$name]}")"
    passed=$((passed + good))
    failed=$((failed + bad))
    skipped=$((skipped + left))
    [ "$left" -eq 0 ] || skips=", $left skipped"
    say "$(printf '%-36s %4d passed, %d failed%s  (%d s)' "$name" "$good" "$bad" "$skips" "${seconds_of[$name]}")"
    [ "$left" -eq 0 ] || sed -nE 's/.*# *SKIP *(.*)/    skipped: \1/Ip' "$tap" | sort -u
    if [ "$bad" -gt 0 ]; then
        show_failure "$tap"
        say "    exit status ${status_of[$name]}; full output in $tap and $tap.err"
    fi
}
