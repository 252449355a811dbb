#!/usr/bin/env bash
# window_test.sh MESHWRIGHT MESHWRIGHT_GUI: a real window on a display of its own, with a window
# manager, driven by keys: opens a file, searches, filters, zooms, exports. What the program says of
# itself must be what the command line prints. Exit code 77: nothing to draw on.
set -uo pipefail
program=$1
gui=$2
for tool in Xvfb openbox xdotool; do
  command -v "$tool" >/dev/null || { echo "$tool is not there"; exit 77; }
done
folder=$(mktemp -d)
log=$folder/log
started=()
clean_up() {
  ((${#started[@]})) && kill "${started[@]}" 2>/dev/null
  wait 2>/dev/null
  rm -rf "$folder"
}
trap clean_up EXIT

fail() {
  echo "FAILED: $*"
  echo "what the window said:"
  tail -n 20 "$log"
  exit 1
}

# said PATTERN [SECONDS]: waits until the window has said it, after the lines seen before.
seen=0
said() {
  local pattern=$1 tries=$((${2:-120} * 10)) line
  while ((tries-- > 0)); do
    line=$(tail -n +$((seen + 1)) "$log" | grep -n -m 1 -E "$pattern")
    if [[ $line ]]; then
      seen=$((seen + ${line%%:*}))
      found=${line#*:}
      return 0
    fi
    kill -0 "$window_process" 2>/dev/null || fail "the program ended"
    sleep 0.1
  done
  fail "it never said $pattern"
}

# The server chooses a free number and says it.
Xvfb -displayfd 3 -screen 0 1280x800x24 -nolisten tcp 3>"$folder/display" 2>/dev/null &
started+=($!)
for ((i = 0; i < 100; ++i)); do
  [[ -s $folder/display ]] && break
  sleep 0.1
done
DISPLAY=:$(<"$folder/display")
export DISPLAY QT_QPA_PLATFORM=xcb XDG_RUNTIME_DIR=$folder XDG_CONFIG_HOME=$folder HOME=$folder

# wait_for SECONDS COMMAND...: until it has an output or succeeds, which is then in `found`.
wait_for() {
  local tries=$(($1 * 10))
  shift
  while ((tries-- > 0)); do
    found=$("$@" 2>/dev/null) && return 0
    sleep 0.1
  done
  return 1
}

openbox --sm-disable >"$folder/manager" 2>&1 &
started+=($!)
# A window that is there before its manager may never be shown.
wait_for 60 xdotool get_num_desktops || fail "no window manager"

cp "$(dirname "$0")/../../data/models/gpt2.json" "$folder/model.json"
: >"$log"
"$gui" h100 --global-batch 32 --seq 1024 --fresh --log-state >"$log" 2>"$folder/err" &
window_process=$!
started+=("$window_process")
find_window() {
  wait_for 60 xdotool search --onlyvisible --name '^Meshwright$' || fail "no window"
  window=$(head -n 1 <<<"$found")
}
find_window
# activate WINDOW: waits until it has the keys. The manager must have taken over first.
activate() {
  local tries=100
  while ((tries-- > 0)); do
    timeout 5 xdotool windowactivate --sync "$1" 2>/dev/null
    sleep 0.1
    [[ $(xdotool getwindowfocus 2>/dev/null) == "$1" ]] && return 0
  done
  fail "window $1 does not get the keys"
}
activate "$window"
press() { xdotool key --clearmodifiers "$@"; }
# answer TITLE TEXT: types into a dialog.
answer() {
  wait_for 20 xdotool search --onlyvisible --name "$1" || fail "no dialog $1"
  local dialog
  dialog=$(head -n 1 <<<"$found")
  activate "$dialog"
  xdotool type --delay 2 "$2"
  press Return
  activate "$window"
}

press ctrl+o
answer '^Models, clusters, plans, traces$' "$folder/model.json"
said "^opened $folder/model.json$" 30

press F5
said '^search done'
best=$found
said '^idle$'
expected=$("$program" plan --model "$folder/model.json" --cluster h100 --global-batch 32 --seq 1024 --json |
  python3 -c '
import json, sys
answer = json.load(sys.stdin)
print("search done best_s", answer["plans"][0]["report"]["step_s"], "gap", answer["gap"])')
[[ $best == "$expected" ]] || fail "found $best, expected $expected"

press ctrl+l
xdotool type 'zero=3 '
# A busy program may say something of every letter.
for ((i = 0; i < 7; ++i)); do
  said '^rows [0-9]+ visible [0-9]+$'
  read -r _ all _ shown <<<"$found"
  ((shown > 0 && shown < all)) && break
done
((shown > 0 && shown < all)) || fail "the filter shows $shown of $all"

# The pointer over the timeline, which gets the keys by a click.
xdotool mousemove --window "$window" 760 480 click 1
press w w
said '^time [0-9]+ [0-9]+$'
press Home
said '^time 0 [0-9]+$'

# What is exported is the plan that is shown.
press ctrl+s
answer '^Save$' "$folder/plan.json"
wait_for 20 test -s "$folder/plan.json" || fail "the plan is not written"
expected=$("$program" simulate --model "$folder/model.json" --cluster h100 --global-batch 32 \
  --seq 1024 --plan "$folder/plan.json" --json |
  python3 -c 'import json, sys; print(json.load(sys.stdin)["report"]["step_s"])')
shows_expected() { grep -E '^plan .* step_s ' "$log" | tail -n 1 | grep -qE " $expected\$"; }
wait_for 20 shows_expected ||
  fail "the window says $(grep -E '^plan .* step_s ' "$log" | tail -n 1), the command line $expected"

# ends_well: it is closed by keys and says that all went well.
ends_well() {
  press ctrl+q 2>/dev/null
  for ((i = 0; i < 300; ++i)); do
    kill -0 "$window_process" 2>/dev/null || break
    sleep 0.1
  done
  wait "$window_process"
  code=$?
  ((code == 0)) || fail "it ended with $code: $(tail -n 3 "$folder/err")"
}

# Closing in the middle of a search.
press F5
sleep 0.3
ends_well

# start_again: without --fresh, so with the session of the last time.
start_again() {
  "$gui" --log-state >"$log" 2>"$folder/err" &
  window_process=$!
  started+=("$window_process")
  find_window
  activate "$window"
}
start_again
ends_well
session=$(find "$folder" -name session.json)
[[ -s $session ]] || fail "the session is not saved"

# One of a newer program is not lost.
sed -i 's/"version": 1/"version": 2/' "$session"
cp "$session" "$folder/newer.json"
start_again
ends_well
cmp "$session" "$folder/newer.json" || fail "a session of a newer program was overwritten"
echo "passed"
