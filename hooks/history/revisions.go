package history

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// CollisionError says that two different contents have one hash. The second
// one cannot be released: both would use the same Deployment.
type CollisionError struct {
	Hash     string
	Existing Snapshot
	Wanted   Content
}

func (e *CollisionError) Error() string {
	return fmt.Sprintf("version %q with this template has the same hash %s as revision %d (version %q) but other content; "+
		"change the template in any way, for example by an annotation",
		e.Wanted.Version, e.Hash, e.Existing.Number, e.Existing.Version)
}

// Find returns the snapshot of a content. Only those with the same hash are
// opened, and of equal ones the latest is taken. When there is none, the error
// is nil, or a *BrokenError if the one that carries the hash cannot be read, or
// a *CollisionError if it has other content.
func Find(snapshots []Snapshot, wanted Content) (found Snapshot, ok bool, err error) {
	var collision, broken error
	for _, s := range slices.Backward(snapshots) {
		if s.Hash != wanted.Hash {
			continue
		}
		if s.states(wanted) {
			return s, true, nil
		}
		content, err := s.Content()
		switch {
		case err != nil:
			broken = cmp.Or(broken, err)
		case content.Equal(wanted):
			return s, true, nil
		default:
			collision = &CollisionError{Hash: wanted.Hash, Existing: s, Wanted: wanted}
		}
	}
	if collision != nil {
		return Snapshot{}, false, collision
	}
	return Snapshot{}, false, broken
}

// ByNumber returns the snapshot of a revision number.
func ByNumber(snapshots []Snapshot, number int64) (Snapshot, bool) {
	i := slices.IndexFunc(snapshots, func(s Snapshot) bool { return s.Number == number && number > 0 })
	if i < 0 {
		return Snapshot{}, false
	}
	return snapshots[i], true
}

// ErrNumbers says that the revision numbers are used up.
var ErrNumbers = errors.New("there is no revision number left")

// Next is the number of a new revision: one above everything that was ever
// seen, which is the high-water mark of the record, the snapshots and the
// numbers the caller found elsewhere (labels of Deployments, history). What is
// no possible number is not counted. Numbers are never used twice, so that
// rollbackTo always means the same revision.
func Next(highWater int64, snapshots []Snapshot, elsewhere ...int64) (int64, error) {
	highest := max(0, highWater)
	for _, s := range snapshots {
		highest = max(highest, s.Number)
	}
	for _, n := range elsewhere {
		if n <= MaxNumber {
			highest = max(highest, n)
		}
	}
	if highest >= MaxNumber {
		return 0, ErrNumbers
	}
	return highest + 1, nil
}

// Prune returns the snapshots to go on asking for, in their order: those in
// keep, and of the rest the limit ones that were the target most recently.
// lastTarget gives a revision's place in that order (any clock or counter that
// rises; equal places are ordered by number). Those without a number stay:
// nobody can say what they are.
//
//	limit 2, keep {7}, last targets 3 < 1 < 5 < 7: keeps 1, 5 and 7, drops 3
func Prune(snapshots []Snapshot, limit int, keep map[int64]bool, lastTarget func(number int64) int64) []Snapshot {
	var rest []int64
	for _, s := range snapshots {
		if s.Number > 0 && !keep[s.Number] {
			rest = append(rest, s.Number)
		}
	}
	slices.SortFunc(rest, func(a, b int64) int {
		return cmp.Or(cmp.Compare(lastTarget(b), lastTarget(a)), cmp.Compare(b, a))
	})
	recent := make(map[int64]bool, len(rest))
	for _, n := range rest[:min(max(0, limit), len(rest))] {
		recent[n] = true
	}
	var kept []Snapshot
	for _, s := range snapshots {
		if s.Number == 0 || keep[s.Number] || recent[s.Number] {
			kept = append(kept, s)
		}
	}
	return kept
}
