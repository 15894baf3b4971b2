# Runs tests beside one another in lanes, for scripts/test.  A test is a command that prints TAP; a
# build is what tests or other builds need.  Each starts as soon as a lane is free and what it needs is built.
# Results appear in the order in which the tests were added.

declare -A command_of=() needs_of=() state_of=() status_of=() seconds_of=()
# the names of the jobs that run, by their process
declare -A running_jobs=()
tests=()
builds=()

# add_test NAME NEEDS COMMAND ...; NEEDS are the names of builds.
add_test() {
    tests+=("$1")
    add_job "$@"
}

# add_build NAME NEEDS COMMAND ...; a build that fails ends the whole run.
add_build() {
    [ -z "${state_of[$1]:-}" ] || return 0
    builds+=("$1")
    add_job "$@"
}

add_job() {
    local name=$1 needs=$2
    shift 2
    needs_of[$name]=$needs
    command_of[$name]=$(printf '%q ' "$@")
    state_of[$name]=waiting
}

# Two more than processors, since many tests wait; fewer if there is little memory, or a GPU to share.
count_lanes() {
    local by_processors=$(($(nproc) + 2)) by_memory
    by_memory=$(($(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo) / 1500000))
    [ $by_processors -le 9 ] || by_processors=9
    [ ! -e /dev/nvidiactl ] || [ $by_processors -le 4 ] || by_processors=4
    [ $by_memory -ge 1 ] || by_memory=1
    echo $((by_processors < by_memory ? by_processors : by_memory))
}

# Builds called units/ share a folder, so one of them runs at a time.
can_start() {
    local need
    [ "${state_of[$1]}" = waiting ] || return 1
    [[ $1 != units/* || " ${running_jobs[*]} " != *" units/"* ]] || return 1
    for need in ${needs_of[$1]}; do
        [ "${state_of[$need]}" = done ] || return 1
    done
}

# The file of what a test or a build says.
file_of() {
    printf '%s' "$folder/results/${1//\//_}.tap"
}

# Runs everything that was added.  The arguments are the names of what is to start before the rest.
run_lanes() {
    local name lane pid status queue=() free=() first=0
    local -A lane_of=() began_of=()
    for name in "$@" "${builds[@]}" "${tests[@]}"; do
        [ -z "${state_of[$name]:-}" ] || [[ " ${queue[*]} " == *" $name "* ]] || queue+=("$name")
    done
    mapfile -t free < <(seq "${LANES:-$(count_lanes)}")
    while true; do
        for name in "${queue[@]}"; do
            [ ${#free[@]} -gt 0 ] || break
            can_start "$name" || continue
            lane=${free[0]}
            free=("${free[@]:1}")
            state_of[$name]=running
            run_job "$name" "$lane" &
            running_jobs[$!]=$name
            lane_of[$!]=$lane
            began_of[$!]=$SECONDS
        done
        [ ${#running_jobs[@]} -gt 0 ] || break
        status=0
        wait -n -p pid || status=$?
        # from 5.3 on, bash reports seq as well
        [ -n "${running_jobs[$pid]:-}" ] || continue
        name=${running_jobs[$pid]}
        unset "running_jobs[$pid]"
        free=("${lane_of[$pid]}" "${free[@]}")
        state_of[$name]=done
        status_of[$name]=$status
        seconds_of[$name]=$((SECONDS - began_of[$pid]))
        check_build "$name"
        while [ $first -lt ${#tests[@]} ] && [ "${state_of[${tests[first]}]}" = done ]; do
            report "${tests[first]}"
            first=$((first + 1))
        done
    done
}
run_job() {
    local file
    trap - EXIT INT TERM HUP
    file=$(file_of "$1")
    lane=$2
    eval "${command_of[$1]}" > "$file" 2> "$file.err" < /dev/null
}

# Ends the run if this is a build that failed.
check_build() {
    local file
    file=$(file_of "$1")
    [[ " ${builds[*]} " == *" $1 "* ]] && [ "${status_of[$1]}" -ne 0 ] || return 0
    cat "$file" "$file.err" >&2
    die "$1 cannot be built"
}

# The processes that this run, or an earlier one in the same folder, has started.
processes_of_run() {
    local file
    for file in /proc/[0-9]*/environ; do
        ! grep -qzxF "GK_TEST_RUN=$folder" "$file" 2> /dev/null || basename "${file%/environ}"
    done
}

# Ends all of them: servers at first as if their clients had gone, and at last by force.
end_processes() {
    local signal pids end
    [ ${#running_jobs[@]} -eq 0 ] || kill "${!running_jobs[@]}" 2> /dev/null || true
    for signal in TERM QUIT KILL; do
        end=$((SECONDS + 10))
        mapfile -t pids < <(processes_of_run)
        [ ${#pids[@]} -gt 0 ] || return 0
        kill -s $signal "${pids[@]}" 2> /dev/null || true
        while [ $SECONDS -lt $end ] && [ -n "$(processes_of_run)" ]; do
            sleep 0.1
        done
    done
}
