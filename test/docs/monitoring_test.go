package docs

import (
	"regexp"
	"strings"
	"testing"
)

// The page lists the alerts and the series that there are, and their number.
func TestMonitoring(t *testing.T) {
	page := read(t, "docs/monitoring.md")
	alerts := all(`(?m)^  - alert: (\w+)$`, read(t, "manifests/monitoring/rules.yaml"))
	compare(t, "alerts in docs/monitoring.md", alerts, all("(?m)^\\| `(GreyRelease\\w+)` \\|", page))
	if len(alerts) != 14 || !strings.Contains(page, "stand fourteen alerts") {
		t.Errorf("want the number of alerts in docs/monitoring.md, there are %d", len(alerts))
	}
	var series []string
	for _, name := range all(`(?m)^    - name: (\w+)$`, read(t, "manifests/monitoring/customresourcestate.yaml")) {
		series = append(series, "kube_greyrelease_"+name)
	}
	compare(t, "series in docs/monitoring.md", series, all("`(kube_greyrelease_\\w+)`", part(t, page, "## Series of each release", "The last rollback")))
	for _, name := range regexp.MustCompile(`(?m)^\| .([a-z]+\.(?:yaml|json)).`).FindAllStringSubmatch(page, -1) {
		read(t, "manifests/monitoring/"+name[1])
	}
}
