#!/bin/sh
# What does an operator's tool on a cache host do: which versions are here, which one runs, and how is it
# exchanged? One copy of this file serves every host; the folder it was called from says which host it is.
#
#   lab-host has AGENT VERSION        whether the repository has it            (4: no such version)
#   lab-host stage AGENT VERSION      put a version into its own folder        (4: no such version)
#   lab-host unstage AGENT VERSION    take it away again, if it was staged     (10: it is switched to)
#   lab-host switch AGENT VERSION     point "current" at it                    (5: not staged)
#   lab-host restart AGENT            stop, wait for the exit, start           (6: did not stop, 7: did not start)
#   lab-host start|stop AGENT         AGENT is consul, exporter or memcached
#   lab-host version AGENT            what "current" points at
#   lab-host keep-registered consul   from the next restart on, the node stays in the catalog
#
# A version may bring its own configuration: what lies in AGENT/VERSION/consul.d is read besides the host's.
# Every stage, unstage, switch, restart, start and stop is written to the host's log when it begins and when it ends.
set -eu

root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/host.env" # NAME, ADDRESS, SERVER, REPOSITORY, PYTHON, MEMCACHED, MEMCACHED_LIBRARIES, LAB_USER, LAB_STATE
export GUARDRAIL_LAB_ID

fail() {
    status=$1
    shift
    echo "lab-host on $NAME: $*" >&2
    exit "$status"
}

note() { # EVENT STATUS
    read -r up _ </proc/uptime
    printf '{"wall": %s, "mono": %s, "host": "%s", "event": "%s", "verb": "%s", "agent": "%s", "version": "%s", "operation": "%s", "status": %s}\n' \
        "$(date +%s.%N)" "$up" "$NAME" "$1" "$verb" "$agent" "$version" "${GUARDRAIL_OPERATION:-}" "$2" >>"$root/log"
}

# The start time of a process, in clock ticks since the machine's start; nothing when it is gone or dead.
started() { # PID
    line=$(cat "/proc/$1/stat" 2>/dev/null) || return 0
    set -- ${line##*) }
    [ "$1" = Z ] || echo "${20}"
}

running() { # AGENT: prints the pid, if what runs is what was started
    [ -s "$root/run/$1.pid" ] || return 1
    read -r pid since <"$root/run/$1.pid"
    [ "$(started "$pid")" = "$since" ] && echo "$pid"
}

current() { # AGENT
    link=$(readlink "$root/$1/current" 2>/dev/null) || fail 5 "no version of $1 is switched to"
    echo "${link##*/}"
}

has() {
    [ -d "$REPOSITORY/$agent/$version" ] || fail 4 "the repository has no $agent $version"
}

stage() {
    has
    source="$REPOSITORY/$agent/$version"
    mkdir -p "$root/$agent/$version"
    # A link, not a copy: thirty hosts of one machine share the pages of one binary.
    ln -sfn "$source/$agent" "$root/$agent/$version/$agent"
}

unstage() {
    [ "$(current "$agent")" != "$version" ] || fail 10 "$agent $version is switched to; switch to another one first"
    rm -f "$root/$agent/$version/$agent"
    [ ! -d "$root/$agent/$version" ] || rmdir --ignore-fail-on-non-empty "$root/$agent/$version"
}

switch() {
    [ -x "$root/$agent/$version/$agent" ] || fail 5 "$agent $version is not staged; run: lab-host stage $agent $version"
    ln -sfn "$version" "$root/$agent/next"
    mv -Tf "$root/$agent/next" "$root/$agent/current"
}

# Descriptors 3 to 9 are closed: a lock that the caller holds must not live on in an agent.
launch() { # COMMAND...
    log="$root/run/$agent.out"
    setsid "$@" </dev/null >>"$log" 2>&1 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&- &
    pid=$!
    echo "$pid $(started "$pid")" >"$root/run/$agent.pid"
}

start() {
    [ ! -e "$LAB_STATE/stopping" ] || fail 8 "the lab is stopping"
    if running "$agent" >/dev/null; then return 0; fi
    case $agent in
    consul)
        rm -f "$root/run/consul.stays"
        [ ! -e "$root/consul.d/keep.json" ] || : >"$root/run/consul.stays"
        set -- -config-dir "$root/consul.d" -data-dir "$root/consul-data"
        own="$root/consul/current/consul.d"
        [ ! -d "$own" ] || set -- "$@" -config-dir "$own"
        launch "$root/consul/current/consul" agent "$@"
        ;;
    exporter)
        launch "$PYTHON" -I -S "$root/exporter/current/exporter" --listen "$ADDRESS"
        ;;
    memcached)
        LD_LIBRARY_PATH=$MEMCACHED_LIBRARIES launch "$MEMCACHED" -u "$LAB_USER" -l "$ADDRESS" -p 11211 -U 0 -m 16 -t 1
        ;;
    esac
    stays_up
}

# Started is what listens: a busy machine may take a second to find a configuration bad. The kernel writes an
# address as a little-endian number.
stays_up() {
    case $agent in consul) port=8500 ;; exporter) port=9100 ;; memcached) port=11211 ;; esac
    place=$(IFS=.; set -- $ADDRESS; printf '%02X%02X%02X%02X:%04X' "$4" "$3" "$2" "$1" "$port")
    tries=0
    while [ "$tries" -lt 100 ]; do
        tries=$((tries + 1))
        if [ "$tries" -le 4 ]; then sleep 0.1; else sleep 0.5; fi
        running "$agent" >/dev/null || fail 7 "$agent did not stay up: $(tail -n 1 "$root/run/$agent.out")"
        if grep -q " $place 00000000:0000 0A " /proc/net/tcp; then return 0; fi
    done
    fail 7 "$agent does not listen on $ADDRESS:$port after 50 s"
}

# An agent that was started to leave the catalog on a stop is killed, once, if it is to stay from now on:
# the first restart onto the new configuration must not be the one that takes the node out.
signal() {
    if [ "$agent" = consul ] && [ -e "$root/consul.d/keep.json" ] && [ ! -e "$root/run/consul.stays" ]; then
        echo KILL
    else
        echo TERM
    fi
}

stop() {
    pid=$(running "$agent") || return 0
    kill "-$(signal)" "$pid"
    tries=0
    while running "$agent" >/dev/null; do
        tries=$((tries + 1))
        [ "$tries" -le 600 ] || fail 6 "$agent (pid $pid) has not stopped in 30 s"
        sleep 0.05
    done
    rm -f "$root/run/$agent.pid"
}

keep_registered() {
    [ "$agent" = consul ] || fail 2 "only consul can be kept registered"
    printf '{"leave_on_terminate": false, "skip_leave_on_interrupt": true}\n' >"$root/consul.d/keep.part"
    mv -f "$root/consul.d/keep.part" "$root/consul.d/keep.json"
}

verb=${1:-} agent=${2:-} version=${3:-}
case $agent in consul | exporter | memcached) ;; *) fail 2 "AGENT is consul, exporter or memcached, not '$agent'" ;; esac
case $verb in
version)
    current "$agent"
    exit 0
    ;;
has | stage | unstage | switch)
    [ "$agent" != memcached ] || fail 2 "memcached has no versions here"
    case $version in '' | *[!0-9.a-z+-]* | .*) fail 2 "$verb needs a version" ;; esac
    ;;
start | stop | restart)
    [ -n "$version" ] || [ "$agent" = memcached ] || version=$(current "$agent")
    ;;
keep-registered) ;;
*) fail 2 "the verbs are has, stage, unstage, switch, restart, start, stop, version, keep-registered, not '$verb'" ;;
esac
if [ "$verb" = has ]; then # a question: no lock, no line in the log
    has
    exit 0
fi

exec 9>"$root/run/$agent.lock"
flock -w 60 9 || fail 9 "another lab-host is at work on $agent for a minute"
note begin 0
trap 'note end $?' EXIT
case $verb in
restart)
    stop
    start
    ;;
keep-registered) keep_registered ;;
*) "$verb" ;;
esac
