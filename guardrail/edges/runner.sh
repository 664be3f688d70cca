{
# How are the steps of a change run on a host once, whatever becomes of the connection?
#
#   sh -s -- OPERATION[@RUN] HOST AGENT DIRECTION LEASE TURN ATTEMPT LIMIT {COUNT WORD...}...   < this file
#
# Sent on standard input; the braces make the shell read all of it before the first line runs, so
# that "go" can follow on the same stream. It needs sh, flock, setsid, timeout and the usual tools.
# Names come as file names (edges/runner.py), and RUN tells operations of one name apart. LIMIT is in
# whole seconds, each step a count of words and the words, which are run as they are: nothing is
# evaluated.
#
# It says, one line each, after "guardrail:":
#   ready [again]       say "go" within 1 s, by this host's clock, or nothing begins; again: an
#                       earlier turn has run steps the same way, and none runs any more
#   wait REASON         about once a second, while there is nothing to do but wait
#   not_begun REASON | refused REASON | blocked REASON | running REASON | died REASON
#   done STATUS         the steps ended; their output (its last 64 KiB) follows to the end
#
# Kept on the host, under the state folder:
#   locks/AGENT@MACHINE               held (flock) for as long as steps of that agent run
#   runs/OPERATION@RUN/HOST/token     the highest "LEASE TURN ATTEMPT" that ever asked
#   runs/OPERATION@RUN/HOST/DIRECTION-TURN/{begun,output,status}   one run; never done twice
#   log                               a line for each begin and end
set -u
: "${HOME:=/}"
old_umask=$(umask)
umask 077
operation=$1 host=$2 agent=$3 direction=$4 lease=$5 turn=$6 attempt=$7 limit=$8
shift 8

say() { printf 'guardrail:%s\n' "$*" || exit 0; }
end() { say "$@"; exit 0; }

# Hundredths of a second on this machine's own clock, which nobody sets.
clock() { read -r up rest </proc/uptime; echo "$((${up%.*} * 100 + 1${up#*.} - 100))"; }

# A person's choice; else what was used before; else the machine's folder if it can be ours.
choose_state() {
    if [ -n "${GUARDRAIL_STATE:-}" ]; then state=$GUARDRAIL_STATE
    elif [ -d "$HOME/.guardrail/runs" ]; then state=$HOME/.guardrail
    elif [ -d /var/lib/guardrail ] && [ -O /var/lib/guardrail ]; then state=/var/lib/guardrail
    elif [ ! -e /var/lib/guardrail ] && mkdir -p /var/lib/guardrail 2>/dev/null; then state=/var/lib/guardrail
    else state=$HOME/.guardrail
    fi
}

# 0: the token asked with is the highest so far, and is stored now. Left to right, as numbers.
claim() {
    # Tried in a subshell: a failed redirection of exec would end the shell without a word.
    (exec 8>"$mine/token.lock") 2>/dev/null || return 2
    exec 8>"$mine/token.lock"
    flock 8
    stored='none' claimed=0
    if [ -s "$mine/token" ]; then
        read -r l t a <"$mine/token"
        stored="lease $l, turn $t, attempt $a"
        if [ "$lease" -lt "$l" ]; then claimed=1
        elif [ "$lease" -eq "$l" ] && [ "$turn" -lt "$t" ]; then claimed=1
        elif [ "$lease" -eq "$l" ] && [ "$turn" -eq "$t" ] && [ "$attempt" -lt "$a" ]; then claimed=1
        fi
    fi
    if [ "$claimed" -eq 0 ] && [ "$stored" != "lease $lease, turn $turn, attempt $attempt" ]; then
        { echo "$lease $turn $attempt" >"$mine/token.new" && mv -f "$mine/token.new" "$mine/token"; } || claimed=2
    fi
    exec 8>&-
    return "$claimed"
}

claim_or_end() {
    claim && return
    [ $? -eq 1 ] && end refused "a newer attempt has asked on this host ($stored); this one is lease $lease, turn $turn, attempt $attempt"
    unwritable
}

# Only what never began is blocked: an earlier attempt of this turn may have, and can be read still.
unwritable() {
    [ ! -e "$run/status" ] || report_status
    [ ! -e "$run/begun" ] || end running "the steps have begun, and nothing can be written to $state on the host to wait for them: make room there"
    end blocked "nothing can be written to $state on the host: make room, or let this user write there"
}

# The processes left of a run whose runner died: those of its session, unless the machine was restarted.
left_of() { # RUN
    { read -r l t a session boot at; } <"$1/begun" 2>/dev/null || return 0
    [ "${boot:-}" = "$boot_id" ] || return 0
    for stat in /proc/[0-9]*/stat; do
        { read -r line; } <"$stat" 2>/dev/null || continue
        process=${line%% *}
        set -- ${line##*) }
        [ "$1" = Z ] || [ "$4" != "$session" ] || printf '%s ' "$process"
    done
}

# Runs of this host that began, left no status and still have processes (their runner is dead).
leftovers() {
    for other in "$mine"/*-*/; do
        [ -e "${other}begun" ] && [ ! -e "${other}status" ] || continue
        found=$(left_of "${other%/}")
        [ -z "$found" ] || printf '%s' "$found"
    done
}

# Whether an earlier turn of this operation has begun in this direction.
ran_before() {
    for other in "$mine/$direction"-*/; do
        [ ! -e "${other}begun" ] || [ "${other%/}" = "$run" ] || return 0
    done
    return 1
}

report_status() {
    read -r status <"$run/status"
    say done "$status"
    tail -c 65536 "$run/output" 2>/dev/null
    exit 0
}

# Short at first: most steps end soon, and whoever waits for them waits no longer than they take.
naps=0
nap() {
    naps=$((naps + 1))
    if [ "$naps" -le 20 ]; then sleep 0.01 2>/dev/null && return; fi
    sleep 0.1 2>/dev/null || sleep 1
}

# Until this turn's run has ended, or there is none and the lock is ours (descriptor 9).
settle() { # ASKED: 1 when "go" was said by us
    said=0
    while :; do
        [ ! -e "$run/status" ] || report_status
        exec 9>>"$lock"
        if flock -n 9; then
            [ ! -e "$run/status" ] || report_status
            if [ -e "$run/begun" ]; then
                left=$(left_of "$run")
                end died "the steps had begun, and their runner ended without a status${left:+; processes of it still run: $left}"
            fi
            [ "$1" -eq 0 ] || end not_begun 'the runner ended before it began (late, or its state could not be written)'
            left=$(leftovers)
            [ -n "$left" ] || return 0
            why="processes of an earlier run still run: $left" holder=
        else
            holder=$(cat "$lock.holder" 2>/dev/null)
            why="steps run under the lock: $holder"
        fi
        exec 9>&-
        now=$(clock)
        if [ "$now" -ge "$deadline" ]; then
            [ ! -e "$run/begun" ] || end running "the steps have begun and run still, after $limit s ($why)"
            # This very run is about to begin or to give up: which one is not known before it shows.
            [ "$holder" = "$myself" ] || end blocked "not free within $limit s: $why"
        fi
        if [ "$now" -ge "$said" ]; then
            say wait "$why"
            said=$((now + 100))
        fi
        nap
    done
}

# The detached part: holds the lock (9), begins only in time, runs the steps, keeps what came of them.
steps='
    run=$1 log=$2 ready=$3 mask=$4 token=$5 boot=$6 name=$7
    shift 7
    clock() { read -r up rest </proc/uptime; echo "$((${up%.*} * 100 + 1${up#*.} - 100))"; }
    note() { printf "%s %s %s\n" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$(clock)" "$*" >>"$log"; }
    # One step: its words are the first ones; in a subshell, without the lock, run and not evaluated.
    step() { # COUNT WORD... REST...
        count=$1
        shift
        rest=$(($# - count))
        while [ "$count" -gt 0 ]; do set -- "$@" "$1"; shift; count=$((count - 1)); done
        shift "$rest"
        umask "$mask"
        exec "$@"
    }
    : >"$run/output" || exit 1
    printf "%s %s %s %s\n" "$token" "$$" "$boot" "$(clock)" | dd of="$run/begun" conv=fsync 2>/dev/null || { rm -f "$run/begun"; exit 1; }
    # The last moment: the clock is asked after the slow write.
    [ "$(($(clock) - ready))" -le 100 ] || { rm -f "$run/begun"; exit 1; }
    note "begin $name pid $$"
    status=0
    while [ $# -gt 0 ] && [ "$status" -eq 0 ]; do
        true >"$run/output.next" && mv -f "$run/output.next" "$run/output"
        (step "$@") </dev/null >>"$run/output" 2>&1 9>&-
        status=$?
        shift "$(($1 + 1))"
    done
    note "end $name status $status"
    echo "$status" >"$run/status.new" && mv -f "$run/status.new" "$run/status"
'

for tool in flock setsid timeout dd tail; do
    command -v "$tool" >/dev/null 2>&1 || end blocked "this host has no $tool, which running a step once needs: install it"
done
[ -r /proc/uptime ] || end blocked 'this host has no /proc/uptime: the time of a "go" cannot be checked'
boot_id=unknown
{ read -r boot_id </proc/sys/kernel/random/boot_id; } 2>/dev/null
choose_state
myself="$operation $host $direction turn $turn"
mine=$state/runs/$operation/$host run=$state/runs/$operation/$host/$direction-$turn
lock=$state/locks/$agent@$(uname -n | tr -c 'A-Za-z0-9.\n-' _)
mkdir -p "$mine" "$state/locks" 2>/dev/null || end blocked "the folder $state cannot be made on the host: let this user write there, or set GUARDRAIL_STATE"
(exec 9>>"$lock") 2>/dev/null || unwritable
touch "$state/runs/$operation"
# Beside the rest: nobody waits for the removal of what is old.
find "$state/runs" -mindepth 1 -maxdepth 1 -type d -mtime +30 ! -name "$operation" -exec rm -rf {} + </dev/null >/dev/null 2>&1 &
deadline=$(($(clock) + limit * 100))

claim_or_end
settle 0
exec 9>&- # not held while we wait to be told: a lost connection then blocks nobody
again=
if ran_before; then again=' again'; fi
ready=$(clock)
say "ready$again"
go=$(timeout 1 head -n 1)
[ "$go" = go ] || end not_begun 'no "go" came within 1 s'
[ "$(($(clock) - ready))" -le 100 ] || end not_begun '"go" came late'
exec 9>>"$lock"
until flock -n 9; do # others look whether it is free, for a moment each
    [ "$(($(clock) - ready))" -le 100 ] || { exec 9>&-; settle 0; end not_begun 'another run took the lock just before'; }
    nap
done
[ ! -e "$run/status" ] || report_status
if [ -e "$run/begun" ]; then exec 9>&-; settle 0; fi
claim_or_end
echo "$myself" >"$lock.holder"
mkdir -p "$run" || end blocked "nothing can be written to $state on the host"
export GUARDRAIL_OPERATION="${operation%%@*}" GUARDRAIL_HOST="$host" GUARDRAIL_DIRECTION="$direction" GUARDRAIL_TURN="$turn"
setsid sh -c "$steps" guardrail-steps "$run" "$state/log" "$ready" "$old_umask" "$lease $turn $attempt" "$boot_id" "$operation $host $direction $agent token $lease.$turn.$attempt" "$@" </dev/null >/dev/null 2>&1 &
exec 9>&-
settle 1
exit 0
}
