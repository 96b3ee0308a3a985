package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"greyrelease.example.com/test/e2e/cluster"
)

// steps is a release over 20/40/60/80% and promotion, without pauses.
var steps = object{"batches": []any{
	object{"replicas": "20%"}, object{"replicas": "40%"}, object{"replicas": "60%"}, object{"replicas": "80%"},
}}

// controllers is the user of everything that Kubernetes runs.
const controllers = "kube"

// singles releases 10 pods over steps, one release after the other, and beside it a
// plain Deployment with the same limits.
func (b *bench) singles(ctx context.Context, t *table, times int) error {
	for _, one := range []struct {
		kind      kind
		namespace string
	}{{deployments, "single-plain"}, {releases(steps), "single"}} {
		t.section(fmt.Sprintf("one %s of 10 pods, %d times", one.kind.of, times))
		f, err := b.launch(ctx, one.kind, one.namespace, 1, 10)
		if err != nil {
			return err
		}
		var wall []time.Duration
		var before int
		writes := map[string][]int{}
		text := ""
		for i := range times {
			if err := b.quiet(ctx); err != nil {
				return err
			}
			was := map[string]int{}
			for _, user := range []string{cluster.Metacontroller, controllers} {
				list, err := b.writes(user, f.namespace)
				if err != nil {
					return err
				}
				was[user] = len(list)
			}
			if before, err = b.syncs(ctx); err != nil {
				return err
			}
			took, err := f.update(ctx, fmt.Sprintf("%d.0", i+2))
			if err != nil {
				return err
			}
			wall = append(wall, took[0])
			if err := b.quiet(ctx); err != nil {
				return err
			}
			for _, user := range []string{cluster.Metacontroller, controllers} {
				list, err := b.writes(user, f.namespace)
				if err != nil {
					return err
				}
				writes[user] = append(writes[user], len(list)-was[user])
				if user == cluster.Metacontroller {
					_, text = cluster.Count(list[was[user]:])
				}
			}
		}
		slices.Sort(wall)
		t.row("wall, median (best, worst)", fmt.Sprintf("%s (%s, %s)", seconds(wall[len(wall)/2]), seconds(wall[0]), seconds(wall[len(wall)-1])))
		t.row("writes by the controllers of Kubernetes, median", median(writes[controllers]))
		if one.kind.of != "Deployment" {
			after, err := b.syncs(ctx)
			if err != nil {
				return err
			}
			t.row("writes by Metacontroller, median", median(writes[cluster.Metacontroller]))
			t.row("the last of them", text)
			t.row("calls of the service for it", after-before)
		}
		if err := b.scrap(ctx, f); err != nil {
			return err
		}
	}
	return nil
}

func median(list []int) int {
	list = slices.Sorted(slices.Values(list))
	return list[len(list)/2]
}

// fleets updates many at once: Deployments, and then releases.
func (b *bench) fleets(ctx context.Context, t *table, o options) error {
	plain, err := b.fleet(ctx, t, deployments, "fleet-plain", o)
	if err != nil {
		return err
	}
	if err := b.scrap(ctx, plain); err != nil {
		return err
	}
	if _, err := b.fleet(ctx, t, releases(nil), "fleet", o); err != nil {
		return err
	}
	if err := b.idle(ctx, t, o.idle); err != nil {
		return err
	}
	return b.restarts(ctx, t)
}

func (b *bench) fleet(ctx context.Context, t *table, k kind, namespace string, o options) (*fleet, error) {
	t.section(fmt.Sprintf("%d %ss of %d pods at once", o.releases, k.of, o.replicas))
	started := time.Now()
	f, err := b.launch(ctx, k, namespace, o.releases, int64(o.replicas))
	if err != nil {
		return nil, err
	}
	t.row("first install of all", seconds(time.Since(started)))
	if err := b.quiet(ctx); err != nil {
		return nil, err
	}
	were := map[string]int{}
	for _, user := range []string{cluster.Metacontroller, controllers} {
		list, err := b.writes(user, namespace)
		if err != nil {
			return nil, err
		}
		were[user] = len(list)
	}
	for _, name := range watched {
		if err := resetPeak(b.plane.Pid(name)); err != nil {
			return nil, err
		}
	}
	before, err := b.usage(ctx)
	if err != nil {
		return nil, err
	}
	load := loadAverage()
	took, err := f.update(ctx, "2.0")
	if err != nil {
		return nil, err
	}
	after, err := b.usage(ctx)
	if err != nil {
		return nil, err
	}
	slices.Sort(took)
	t.row("load average before and after", load+", "+loadAverage())
	t.row("update, all out (max)", seconds(took[len(took)-1]))
	t.row("p50, p99", seconds(took[len(took)/2])+", "+seconds(took[(len(took)*99-1)/100]))
	if err := b.quiet(ctx); err != nil {
		return nil, err
	}
	used := after.since(before)
	for _, name := range watched {
		if k.of == "Deployment" && (name == "greyrelease" || name == "metacontroller") {
			continue
		}
		peak, err := peakMemory(b.plane.Pid(name))
		if err != nil {
			return nil, err
		}
		t.row(name+": CPU, peak memory", fmt.Sprintf("%s, %d MiB", seconds(used.cpu[name]), peak))
	}
	list, err := b.writes(controllers, namespace)
	if err != nil {
		return nil, err
	}
	t.row("writes by the controllers of Kubernetes, each", perRelease(len(list)-were[controllers], o.releases))
	if k.of == "Deployment" {
		return f, nil
	}
	if list, err = b.writes(cluster.Metacontroller, namespace); err != nil {
		return nil, err
	}
	list = list[were[cluster.Metacontroller]:]
	_, text := cluster.Count(list)
	t.row("writes by Metacontroller, each", perRelease(len(list), o.releases))
	t.row("all of them", text)
	t.row("calls of the service, each", perRelease(used.syncs, o.releases))
	return f, nil
}

func perRelease(n, releases int) string { return fmt.Sprintf("%.1f", float64(n)/float64(releases)) }

// idle looks at what releases cost in which nothing happens.
func (b *bench) idle(ctx context.Context, t *table, d time.Duration) error {
	t.section(fmt.Sprintf("the same releases, idle for %v", d))
	before, err := b.usage(ctx)
	if err != nil {
		return err
	}
	were, err := b.writes(cluster.Metacontroller, "fleet")
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
	}
	after, err := b.usage(ctx)
	if err != nil {
		return err
	}
	are, err := b.writes(cluster.Metacontroller, "fleet")
	if err != nil {
		return err
	}
	used := after.since(before)
	for _, name := range []string{"greyrelease", "metacontroller"} {
		t.row(name+": CPU", fmt.Sprintf("%s (%.2f%%)", seconds(used.cpu[name]), 100*used.cpu[name].Seconds()/d.Seconds()))
	}
	t.row("calls of the service, writes", fmt.Sprintf("%d, %d", used.syncs, len(are)-len(were)))
	return nil
}

// restarts looks at what a restart of either program costs while all releases are
// idle.
func (b *bench) restarts(ctx context.Context, t *table) error {
	for _, one := range []struct {
		name  string
		start func(context.Context) error
	}{{"greyrelease", b.plane.StartService}, {"metacontroller", b.plane.StartMetacontroller}} {
		t.section("restart of " + one.name + ", the same releases")
		were, err := b.writes(cluster.Metacontroller, "fleet")
		if err != nil {
			return err
		}
		b.plane.End(one.name, false)
		calls := 0
		if one.name != "greyrelease" { // which counts from 0 again
			if calls, err = b.syncs(ctx); err != nil {
				return err
			}
		}
		started := time.Now()
		if err := one.start(ctx); err != nil {
			return err
		}
		t.row("started after", seconds(time.Since(started)))
		last, at := calls, started
		for time.Since(at) < 15*time.Second {
			n, err := b.syncs(ctx)
			if err != nil {
				return err
			}
			if n != last {
				last, at = n, time.Now()
			}
			time.Sleep(100 * time.Millisecond)
		}
		t.row("last call of the service after", seconds(at.Sub(started)))
		u, err := b.usage(ctx)
		if err != nil {
			return err
		}
		are, err := b.writes(cluster.Metacontroller, "fleet")
		if err != nil {
			return err
		}
		t.row("calls of the service, writes", fmt.Sprintf("%d, %d", last-calls, len(are)-len(were)))
		t.row(one.name+": CPU since then", seconds(u.cpu[one.name]))
	}
	return nil
}
