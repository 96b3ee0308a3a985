package monitoring

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

var placeholder = regexp.MustCompile(`\$\([a-zA-Z]+\)`)

// What the examples ask is PromQL that Prometheus' own parser takes, and gives one
// number: a scalar, or a vector whose labels are all aggregated away.
func TestQueriesOfExamples(t *testing.T) {
	files, err := filepath.Glob("../../examples/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	queries := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var release struct {
			Spec struct {
				Analysis struct {
					Metrics []struct{ Name, Query string }
				}
			}
		}
		if err := yaml.Unmarshal(text, &release); err != nil {
			t.Fatal(err)
		}
		for _, m := range release.Spec.Analysis.Metrics {
			queries++
			tree, err := parser.ParseExpr(placeholder.ReplaceAllString(m.Query, "x"))
			if err != nil {
				t.Errorf("%s: %s: want PromQL, got %v", file, m.Name, err)
				continue
			}
			if !single(tree) {
				t.Errorf("%s: %s: want one number, got a %s of any length: %s", file, m.Name, tree.Type(), tree)
			}
		}
	}
	if queries < 10 {
		t.Errorf("want at least 10 queries in the examples, got %d", queries)
	}
}

// single tells whether an expression gives one sample whatever there is: a scalar, an
// aggregation without labels, or what is computed of such.
func single(tree parser.Expr) bool {
	switch e := tree.(type) {
	case *parser.NumberLiteral:
		return true
	case *parser.ParenExpr:
		return single(e.Expr)
	case *parser.UnaryExpr:
		return single(e.Expr)
	case *parser.BinaryExpr:
		return single(e.LHS) && single(e.RHS)
	case *parser.AggregateExpr:
		return len(e.Grouping) == 0 && !e.Without
	case *parser.Call:
		switch e.Func.Name {
		case "vector", "scalar", "time":
			return true
		case "histogram_quantile":
			inner, ok := e.Args[1].(*parser.AggregateExpr)
			return ok && len(inner.Grouping) == 1 && inner.Grouping[0] == "le" && !inner.Without
		}
	}
	return false
}

func TestSingle(t *testing.T) {
	for query, want := range map[string]bool{
		`up`: false, `sum(up)`: true, `sum by (job) (up)`: false, `rate(up[1m])`: false, `sum(up) or vector(0)`: true,
		`sum(up) / up`: false, `histogram_quantile(0.9, sum by (le) (a))`: true, `histogram_quantile(0.9, a)`: false,
	} {
		tree, err := parser.ParseExpr(query)
		if err != nil {
			t.Fatal(err)
		}
		if got := single(tree); want != got {
			t.Errorf("%s: want %v, got %v", query, want, got)
		}
	}
}
