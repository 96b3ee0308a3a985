package rollout

import (
	"fmt"
	"testing"
	"time"
)

// walkPlan lists the sizes of all batches for replicas.
func walkPlan(s Settings, replicas int64) []int64 {
	var sizes []int64
	var reached *Position
	for {
		step, ok := NewPlan(s, replicas).Current(reached)
		if !ok {
			return sizes
		}
		sizes = append(sizes, step.Size)
		reached = step.reached(replicas)
		if len(sizes) > 1000 {
			return sizes
		}
	}
}

func TestPlanSizes(t *testing.T) {
	for _, tc := range []struct {
		why      string
		settings Settings
		replicas int64
		want     string
	}{
		{"canary, then batches", Settings{CanaryWeight: 10, BatchSize: 3}, 10, "[1 4 7 10]"},
		{"the default batch is a quarter, rounded up", Settings{}, 10, "[3 6 9 10]"},
		{"one replica is one batch", Settings{CanaryWeight: 10, BatchSize: 3}, 1, "[1]"},
		{"a canary of everything", Settings{CanaryWeight: 100}, 4, "[4]"},
		{"RM-02: a small share is one pod", Settings{Batches: []Batch{{Percent: 10}, {Percent: 20}, {Percent: 60}}}, 3, "[1 2]"},
		{"RM-10: pods above 100", Settings{Batches: []Batch{{Pods: 150}, {Pods: 300}, {Pods: 500}}}, 500, "[150 300 500]"},
		{"RM-10: pods above the replicas are all of them", Settings{Batches: []Batch{{Pods: 2}, {Pods: 50}, {Pods: 60}}}, 10, "[2 10]"},
		{"batches of one size are one", Settings{Batches: []Batch{{Pods: 1}, {Percent: 10}, {Percent: 50}}}, 10, "[1 5]"},
		{"a size is never below an earlier one", Settings{Batches: []Batch{{Pods: 5}, {Percent: 20}, {Percent: 60}}}, 10, "[5 6]"},
		{"RM-12: no overflow", Settings{Batches: []Batch{{Percent: 99}}}, 2147483647, "[2126008811]"},
		{"RM-12", Settings{Batches: []Batch{{Percent: 99}}}, 30000000, "[29700000]"},
	} {
		if got := fmt.Sprint(walkPlan(tc.settings, tc.replicas)); got != tc.want {
			t.Errorf("%s: want %s, got %s", tc.why, tc.want, got)
		}
	}
}

// TestArithmetic goes through every weight for every number of replicas up to
// 200: more than 0% is at least one pod, a higher weight is never fewer pods,
// 100% is all, and the split is one of the two nearest to the weight.
func TestArithmetic(t *testing.T) {
	for n := int64(1); n <= 200; n++ {
		last := int64(0)
		for w := int64(1); w <= 100; w++ {
			step, ok := NewPlan(Settings{CanaryWeight: w}, n).Current(nil)
			if !ok || step.Size < 1 || step.Size > n || step.Size < last {
				t.Fatalf("n=%d w=%d: got %+v after %d", n, w, step, last)
			}
			if 100*step.Size < n*w || 100*(step.Size-1) >= n*w {
				t.Fatalf("n=%d w=%d: %d is not the share rounded up", n, w, step.Size)
			}
			explicit, _ := NewPlan(Settings{Batches: []Batch{{Percent: w}}}, n).Current(nil)
			if explicit.Size != step.Size {
				t.Fatalf("n=%d w=%d: a canary has %d pods, an explicit batch %d", n, w, step.Size, explicit.Size)
			}
			last = step.Size
		}
		if last != n {
			t.Fatalf("n=%d: 100%% is %d", n, last)
		}
	}
}

// TestArithmeticOfOthers compares with what Argo Rollouts documents. Ours rounds
// up, theirs to the nearest, and with one replica ours is the whole.
func TestArithmeticOfOthers(t *testing.T) {
	for _, tc := range []struct{ n, w, theirs, ours int64 }{
		{4, 25, 1, 1}, {4, 50, 2, 2}, {4, 75, 3, 3},
		{10, 10, 1, 1}, {10, 25, 3, 3}, {10, 50, 5, 5}, {10, 90, 9, 9},
		{10, 33, 3, 4}, {1, 1, 1, 1}, {1, 99, 1, 1},
		// Theirs is 0 with maxSurge 0: raising the weight takes the canary away.
		{2, 75, 0, 2}, {5, 90, 0, 5}, {10, 95, 0, 10}, {25, 98, 0, 25}, {50, 99, 0, 50},
	} {
		step, _ := NewPlan(Settings{CanaryWeight: tc.w}, tc.n).Current(nil)
		if step.Size != tc.ours {
			t.Errorf("n=%d w=%d%%: want %d (theirs %d), got %d", tc.n, tc.w, tc.ours, tc.theirs, step.Size)
		}
	}
}

// TestBudgetHoldsOnTheWay drives whole releases and watches every moment.
func TestBudgetHoldsOnTheWay(t *testing.T) {
	budgets := []struct{ surge, unavailable Quantity }{
		{Quantity{25, true}, Quantity{0, false}},
		{Quantity{25, true}, Quantity{25, true}},
		{Quantity{1, false}, Quantity{0, false}},
		{Quantity{0, false}, Quantity{1, false}},
		{Quantity{0, false}, Quantity{25, true}},
		{Quantity{100, true}, Quantity{0, false}},
		{Quantity{3, false}, Quantity{50, true}},
	}
	for n := int64(1); n <= 200; n += 1 + n/7 {
		for _, w := range []int64{1, 10, 33, 50, 75, 95, 99, 100} {
			for _, b := range budgets {
				m := installed(t, n)
				m.wish.Settings.MaxSurge, m.wish.Settings.MaxUnavailable = b.surge, b.unavailable
				m.wish.Settings.Batches = []Batch{{Percent: w, Approval: true}}
				m.ready[2] = time.Second
				up, down := Budget(n, b.surge, b.unavailable)
				m.target(2)
				want := ceilPercent(n, w)
				for i := 0; i < 2000 && m.record.Gate == nil; i++ {
					m.run(time.Second)
				}
				if got := m.facts().of(2).available(); got != want || m.facts().of(1).asked() != n-want {
					t.Fatalf("n=%d w=%d %v: want %d new and %d old, got %s\n%s", n, w, b, want, n-want, m.line(), m.dump())
				}
				m.wish.Command = m.record.Promote(0)
				m.until(Complete, time.Hour)
				if m.lowest < n-down || m.most > n+up {
					t.Fatalf("n=%d w=%d %v: want at least %d available and at most %d asked for, got %d and %d",
						n, w, b, n-down, n+up, m.lowest, m.most)
				}
			}
		}
	}
}

func TestPositionSurvivesScalingAndEdits(t *testing.T) {
	percents := []Batch{{Percent: 10}, {Percent: 50}, {Percent: 100}}
	pods := []Batch{{Pods: 1}, {Pods: 5}, {Pods: 10}}
	for _, tc := range []struct {
		why      string
		batches  []Batch
		reached  Position
		replicas int64
		want     int64 // size of the next batch, 0: promotion
	}{
		{"shares are compared with shares", percents, Position{1, 10, 10, 0}, 100, 50},
		{"a share that was passed stays passed", percents, Position{5, 10, 50, 0}, 3, 3},
		{"one replica: the gates that are left still ask", percents, Position{1, 10, 10, 0}, 1, 1},
		{"pods: one replica", pods, Position{1, 10, 0, 1}, 1, 1},
		{"pods: scaled in to half, 5 of 10 is 3 of 5", pods, Position{5, 10, 0, 5}, 5, 5},
		{"pods: scaled out", pods, Position{5, 10, 0, 5}, 100, 10},
		{"an edit from pods to shares", percents, Position{5, 10, 0, 5}, 10, 10},
		{"an edit from shares to pods", pods, Position{5, 10, 50, 0}, 10, 10},
		{"a batch above the replicas was passed", []Batch{{Pods: 2}, {Pods: 50}}, Position{10, 10, 0, 50}, 10, 0},
		{"everything was reached", percents, Position{10, 10, 100, 0}, 20, 0},
		{"an edit that leaves nothing to pass", []Batch{{Pods: 2}}, Position{5, 10, 0, 5}, 10, 0},
		{"derived: one replica is left", nil, Position{3, 10, 0, 0}, 1, 1},
		{"derived: scaled in", nil, Position{50, 100, 0, 0}, 8, 6},
	} {
		step, _ := NewPlan(Settings{Batches: tc.batches}, tc.replicas).Current(&tc.reached)
		if step.Size != tc.want {
			t.Errorf("%s: want the batch of %d, got %+v", tc.why, tc.want, step)
		}
	}
}

func TestMergedBatchesAskAllTheirGates(t *testing.T) {
	s := Settings{Batches: []Batch{
		{Percent: 10, SoakSeconds: 5}, {Percent: 20, Approval: true, ApprovalTimeoutSeconds: 60}, {Percent: 30, Approval: true, ApprovalTimeoutSeconds: 30},
	}}
	step, _ := NewPlan(s, 1).Current(nil)
	want := Step{Index: 1, Total: 1, Size: 1, Percent: 30, Weight: 100, SoakSeconds: 5, Approval: true, ApprovalTimeoutSeconds: 30}
	if step != want {
		t.Errorf("want %+v, got %+v", want, step)
	}
}
