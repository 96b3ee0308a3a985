#!/usr/bin/env bash
# Builds the service, starts it and posts the request of every fixture with curl:
# status code, Retry-After and body must be those of its answer.
#
# The service answers by its own clock. So all instants of a request are moved as
# if now was then, and those of what comes back are moved the other way.
set -euo pipefail
cd "$(dirname "$0")/.."

work=$(mktemp -d)
service=
cleanup() {
  [ -z "$service" ] || kill "$service" 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT
mkdir "$work/body" "$work/got"

CGO_ENABLED=0 go build -o "$work/greyrelease" ./server
"$work/greyrelease" --listen 127.0.0.1:0 --metrics-listen 127.0.0.1:0 --drain-delay 0s 2>"$work/log" &
service=$!

# The service chose its ports itself, and says which in its log.
url=
for _ in $(seq 100); do
  address=$(jq -r 'select(.msg == "serving").listen' "$work/log" 2>/dev/null || true)
  if [ -n "$address" ] && curl -sf --noproxy '*' -o "$work/ready" "http://$address/readyz"; then
    url=http://$address
    break
  fi
  sleep 0.1
done
if [ -z "$url" ]; then
  echo "the service is not ready after 10 s:" >&2
  cat "$work/log" >&2
  exit 1
fi

# shift FROM TO: each line of standard input names a file and by how many seconds
# to move the instants in it; the result goes from folder FROM to folder TO.
# Instants are found wherever they stand, also in JSON that is itself a text.
cat >"$work/shift.awk" <<'AWK'
# Days since 1970-01-01 of a date, and back, as in
# https://howardhinnant.github.io/date_algorithms.html.
function days(y, m, d,    era, year, day) {
  if (m <= 2) y--
  era = int(y / 400); year = y - era * 400
  day = int((153 * (m + (m > 2 ? -3 : 9)) + 2) / 5) + d - 1
  return era * 146097 + year * 365 + int(year / 4) - int(year / 100) + day - 719468
}
function date(n,    era, day, year, m, month) {
  n += 719468
  era = int(n / 146097); day = n - era * 146097
  year = int((day - int(day / 1460) + int(day / 36524) - int(day / 146096)) / 365)
  day -= 365 * year + int(year / 4) - int(year / 100)
  m = int((5 * day + 2) / 153); month = m + (m < 10 ? 3 : -9)
  return sprintf("%04d-%02d-%02d", year + era * 400 + (month <= 2), month, day - int((153 * m + 2) / 5) + 1)
}
function moved(at, by,    second, day) {
  second = days(substr(at, 1, 4) + 0, substr(at, 6, 2) + 0, substr(at, 9, 2) + 0) * 86400 \
    + substr(at, 12, 2) * 3600 + substr(at, 15, 2) * 60 + substr(at, 18, 2) + by
  day = int(second / 86400); second -= day * 86400
  return date(day) "T" sprintf("%02d:%02d:%02dZ", int(second / 3600), int(second / 60) % 60, second % 60)
}
BEGIN {
  two = "[0-9][0-9]"
  instant = two two "-" two "-" two "T" two ":" two ":" two "Z"
}
{
  name = $1; by = $2; text = from "/" name; out = to "/" name
  printf "" > out
  while ((getline line < text) > 0) {
    while (match(line, instant)) {
      printf "%s%s", substr(line, 1, RSTART - 1), moved(substr(line, RSTART, RLENGTH), by) > out
      line = substr(line, RSTART + RLENGTH)
    }
    print line > out
  }
  close(text); close(out)
}
AWK
shift_instants() { awk -v from="$1" -v to="$2" -f "$work/shift.awk"; }

# What is expected, a line for each fixture: its name, the path to post to, its
# instant in seconds, and the answer.
cd test/fixtures
shopt -s nullglob
for file in *.answer.json recorded/*.answer.json; do
  echo "${file%.answer.json}"
done >"$work/names"
cat ./*.answer.json recorded/*.answer.json |
  jq -r '"\(.hook) \(.now | fromdate) \({code, retryAfter, answer} | tojson)"' |
  paste -d ' ' "$work/names" - >"$work/fixtures"
mkdir "$work/body/recorded" "$work/got/recorded"

# post WHEN posts what "$work/todo" lists as if it was WHEN, in one run of curl,
# and writes "$work/answers" as "$work/fixtures": name, path, instant and answer.
# It empties late if that was done within the second.
post() {
  awk -v when="$1" '{ print $1 ".request.json", when - $3 }' "$work/todo" | shift_instants . "$work/body"
  while read -r name hook _; do
    printf 'url = "%s%s"\ndata-binary = "@%s"\noutput = "%s"\nwrite-out = "%%{http_code} %%header{retry-after}\\n"\nnext\n' \
      "$url" "$hook" "$work/body/$name.request.json" "$work/got/$name"
  done <"$work/todo" | sed '$d' >"$work/curl"
  while [ "$(date +%s)" -lt "$1" ]; do sleep 0.01; done
  curl -s --noproxy '*' -K "$work/curl" >"$work/codes"
  [ "$(date +%s)" -gt "$1" ] || late=
  awk -v when="$1" '{ print $1, $3 - when }' "$work/todo" | shift_instants "$work/got" "$work/body"
  while read -r name _; do
    tr -d '\n' <"$work/body/$name" && echo
  done <"$work/todo" |
    jq -R -r --rawfile codes "$work/codes" -n '
      ($codes | split("\n") | map(split(" "))) as $codes
      | [inputs] | to_entries[] | $codes[.key] as $code
      | {code: ($code[0] | tonumber), retryAfter: ($code[1] | if . == "" then null else tonumber end),
         answer: (.value as $text | try ($text | fromjson) catch $text)} | tojson' >"$work/lines"
  cut -d ' ' -f 1-3 "$work/todo" | paste -d ' ' - "$work/lines" >"$work/answers"
}

# If the second was over before curl was, what differs is posted again.
cp "$work/fixtures" "$work/todo"
late=yes
for _ in 1 2 3 4 5; do
  post $(($(date +%s) + 2))
  awk 'NR == FNR { got[FNR] = $0; next } got[FNR] != $0' "$work/answers" "$work/todo" >"$work/left"
  cp "$work/left" "$work/todo"
  if [ ! -s "$work/todo" ] || [ -z "$late" ]; then break; fi
done

total=$(wc -l <"$work/fixtures")
failed=$(wc -l <"$work/todo")
while read -r name _ _ want; do
  got=$(awk -v name="$name" '$1 == name' "$work/answers" | cut -d ' ' -f 4-)
  echo "FAIL $name: $(jq -r .why "$name.answer.json")"
  diff <(jq . <<<"$want") <(jq . <<<"$got") | head -40 || true
done <"$work/todo"

# Each pair is in the lists of the README, and there is nothing else.
listed() { grep -E '^\| \[' README.md | grep -oE '\([^)]+\.json\)' | tr -d '()'; }
while IFS= read -r line; do
  failed=$((failed + 1))
  echo "FAIL $line"
done < <(diff <(printf '%s\n' * recorded/* | grep -vE '^(README\.md|recorded|.*_test\.go)$' | sort) <(listed | sort) |
  sed -n 's/^< \(.*\)/\1 is not in the README: an extra file/p; s/^> \(.*\)/\1 is missing/p')

echo "$((total - $(wc -l <"$work/todo"))) passed, $failed failed"
[ "$failed" -eq 0 ]
