package monitoring

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

// unknown lists what an expression asks for and nobody exports: metrics, labels of them,
// and values of labels that neither a recorded release nor the service has.
func unknown(v vocabulary, expression string) ([]string, error) {
	tree, err := parser.ParseExpr(expression)
	if err != nil {
		return nil, fmt.Errorf("cannot parse %s: %w", expression, err)
	}
	var found []string
	asked := map[string]bool{} // labels of all metrics in the expression
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		selector, ok := node.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		metric, ok := v[selector.Name]
		if !ok {
			found = append(found, selector.Name)
			return nil
		}
		for label := range metric {
			asked[label] = true
		}
		for _, m := range selector.LabelMatchers {
			if m.Name == model.MetricNameLabel {
				continue
			}
			if metric[m.Name] == nil {
				found = append(found, selector.Name+"{"+m.Name+"}")
				continue
			}
			for _, value := range strings.Split(m.Value, "|") {
				if !strings.HasPrefix(value, "$") && !strings.Contains(value, ".") && !metric[m.Name][value] {
					found = append(found, fmt.Sprintf("%s{%s=%q}", selector.Name, m.Name, value))
				}
			}
		}
		return nil
	})
	parser.Inspect(tree, func(node parser.Node, _ []parser.Node) error {
		var names []string
		switch n := node.(type) {
		case *parser.AggregateExpr:
			names = n.Grouping
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				names = append(append(names, n.VectorMatching.MatchingLabels...), n.VectorMatching.Include...)
			}
		}
		for _, name := range names {
			if !asked[name] {
				found = append(found, "by "+name)
			}
		}
		return nil
	})
	return found, nil
}

func check(t *testing.T, v vocabulary, where, expression string) {
	t.Helper()
	found, err := unknown(v, expression)
	if err != nil {
		t.Errorf("%s: %v", where, err)
	}
	for _, what := range found {
		t.Errorf("%s: nobody exports %s, asked for by %s", where, what, expression)
	}
}

func TestAlertsAskForWhatIsThere(t *testing.T) {
	var file struct {
		Groups []struct {
			Rules []struct{ Alert, Expr string }
		}
	}
	if err := yaml.Unmarshal(read(t, "manifests/monitoring/rules.yaml"), &file); err != nil {
		t.Fatal(err)
	}
	v, checked := known(t), 0
	for _, group := range file.Groups {
		for _, rule := range group.Rules {
			check(t, v, rule.Alert, rule.Expr)
			checked++
		}
	}
	if checked < 10 {
		t.Errorf("want at least 10 alerts, got %d", checked)
	}
}

// Grafana's own variables, and ours, as they would stand there.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h")

func TestDashboardAsksForWhatIsThere(t *testing.T) {
	var dashboard struct {
		Panels []struct {
			ID      int
			Type    string
			Title   string
			GridPos struct{ H, W, X, Y int }
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct {
				Name  string
				Query any
			}
		}
	}
	if err := json.Unmarshal(read(t, "manifests/monitoring/dashboard.json"), &dashboard); err != nil {
		t.Fatal(err)
	}
	v, checked := known(t), 0
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, panel := range dashboard.Panels {
		if ids[panel.ID] {
			t.Errorf("%s: want ids that differ, got %d again", panel.Title, panel.ID)
		}
		ids[panel.ID] = true
		for x := panel.GridPos.X; x < panel.GridPos.X+panel.GridPos.W; x++ {
			for y := panel.GridPos.Y; y < panel.GridPos.Y+panel.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("want panels beside each other in 24 columns, got %q over %q", panel.Title, other)
				}
				taken[[2]int{x, y}] = panel.Title
			}
		}
		if panel.Type != "row" && len(panel.Targets) == 0 {
			t.Errorf("%s: want an expression, got none", panel.Title)
		}
		for _, target := range panel.Targets {
			check(t, v, panel.Title, variables.Replace(target.Expr))
			checked++
		}
	}
	if checked < 20 {
		t.Errorf("want at least 20 expressions, got %d", checked)
	}
	for _, variable := range dashboard.Templating.List {
		query, ok := variable.Query.(map[string]any)
		if !ok {
			continue // the choice of a data source
		}
		text := query["query"].(string)
		selector, label, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(text, "label_values("), ")"), ", ")
		check(t, v, variable.Name, fmt.Sprintf("count by (%s) (%s)", label, selector))
	}
}

// The check itself finds each kind of mistake.
func TestUnknown(t *testing.T) {
	v := known(t)
	for _, test := range []struct{ expression, want string }{
		{`sum by (code) (rate(greyrelease_requests_total{hook="sync"}[5m]))`, ""},
		{`sum(rate(greyrelease_request_total[5m]))`, "greyrelease_request_total"},
		{`greyrelease_requests_total{path="sync"}`, "greyrelease_requests_total{path}"},
		{`greyrelease_requests_total{hook="finalize"}`, `greyrelease_requests_total{hook="finalize"}`},
		{`kube_greyrelease_status_phase{phase=~"Healthy|Fine"}`, `kube_greyrelease_status_phase{phase="Fine"}`},
		{`sum by (status) (greyrelease_requests_total)`, "by status"},
		{`kube_greyrelease_info * on (uid) kube_greyrelease_created`, "by uid"},
	} {
		found, err := unknown(v, test.expression)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(found, ", "); test.want != got {
			t.Errorf("%s: want %q, got %q", test.expression, test.want, got)
		}
	}
	if _, err := unknown(v, "sum("); err == nil {
		t.Error("want an error for what does not parse, got none")
	}
}
