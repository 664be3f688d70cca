# What does a host of the crash tests do when it is changed?   sh host.sh FOLDER VERB VERSION
#
# It writes into its own log, one line for each begin and end: seconds since boot, event, verb,
# version, operation, turn. Nobody else writes there. How many seconds it takes stands in the file
# FOLDER/VERB-takes; `switch` has nothing running until it is done.
set -eu
folder=$1 verb=$2 version=$3
note() {
    read -r up rest </proc/uptime
    echo "$up $1 $verb $version ${GUARDRAIL_OPERATION:--} ${GUARDRAIL_TURN:--}" >>"$folder/log"
}
note begin
[ "$verb" != switch ] || rm -f "$folder/running"
sleep "$(cat "$folder/$verb-takes")"
if [ "$verb" = switch ]; then
    for what in installed running; do
        echo "$version" >"$folder/$what.new" && mv -f "$folder/$what.new" "$folder/$what"
    done
fi
note end
