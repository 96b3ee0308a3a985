#!/bin/sh
# Compares the benchmarks of two commits: test/bench.sh BASE runs those of BASE and of
# what is checked out in turns, so that a busy machine slows both, and prints what
# benchstat makes of them. Columns to look at are cpu-sec/op and x-floor; sec/op says
# little where other processes run.
#
#   BENCH    which benchmarks of hooks/greyrelease, Sync by default
#   COUNT    how often each is run, 8 by default; benchstat wants 6
#   TIME     how long at a time, 0.2s by default
set -eu
base=${1:?which commit to compare with}
count=${COUNT:-8} time=${TIME:-0.2s} bench=${BENCH:-Sync}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir "$dir/tree"
git archive "$base" | tar -x -C "$dir/tree"
go build -C test/tools -o "$dir/benchstat" golang.org/x/perf/cmd/benchstat
go test -c -o "$dir/now.test" ./hooks/greyrelease
(cd "$dir/tree" && go test -c -o "$dir/base.test" ./hooks/greyrelease)
i=0
while [ $i -lt "$count" ]; do
	for which in base now; do
		(cd hooks/greyrelease && "$dir/$which.test" -test.run '^$' -test.cpu 1 -test.bench "Benchmark$bench" -test.benchtime "$time" -test.benchmem) >> "$dir/$which"
	done
	i=$((i + 1))
done
"$dir/benchstat" "base=$dir/base" "now=$dir/now"
