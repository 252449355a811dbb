#!/usr/bin/env bash
# window_test.sh MESHWRIGHT MESHWRIGHT_GUI: a real window on a display of its own, driven by keys. What
# the program says of itself must be what the command line prints. Exit code 77: nothing to draw on.
set -uo pipefail
program=$1
gui=$2
for tool in Xvfb xdotool; do
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

: >"$log"
"$gui" gpt2 h100 --global-batch 32 --seq 1024 --fresh --log-state >"$log" 2>"$folder/err" &
window_process=$!
started+=("$window_process")
window=''
for ((i = 0; i < 600; ++i)); do
  window=$(xdotool search --onlyvisible --name Meshwright 2>/dev/null | head -n 1)
  [[ ! $window ]] || break
  sleep 0.1
done
[[ $window ]] || fail "no window"
# No window manager hands out the keys.
timeout 10 xdotool windowfocus --sync "$window" || fail "the window does not take the keys"
press() { xdotool key --window "$window" --clearmodifiers "$@"; }

press F5
said '^search done'
best=$found
said '^idle$'
expected=$("$program" plan --model gpt2 --cluster h100 --global-batch 32 --seq 1024 --json |
  python3 -c '
import json, sys
answer = json.load(sys.stdin)
print("search done best_s", answer["plans"][0]["report"]["step_s"], "gap", answer["gap"])')
[[ $best == "$expected" ]] || fail "found $best, expected $expected"

press ctrl+l
xdotool type --window "$window" 'zero=3 '
said '^rows [0-9]+ visible [0-9]+$'
read -r _ all _ shown <<<"$found"
((shown > 0 && shown < all)) || fail "the filter shows $shown of $all"

# The pointer over the timeline, which gets the keys by a click.
xdotool mousemove --window "$window" 760 480 click 1
press w w
said '^time [0-9]+ [0-9]+$'
press Home
said '^time 0 [0-9]+$'

press ctrl+q 2>/dev/null
for ((i = 0; i < 300; ++i)); do
  kill -0 "$window_process" 2>/dev/null || break
  sleep 0.1
done
wait "$window_process"
code=$?
((code == 0)) || fail "it ended with $code: $(tail -n 3 "$folder/err")"
echo "passed"
