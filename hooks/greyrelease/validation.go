package greyrelease

import (
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxNameLength bounds metadata.name. The longest name derived from it is that
// of a pod's Deployment, <name>-<10 hex digits>, and 52 + 11 = 63 is the most
// that a label value and a Service name may have.
const maxNameLength = 52

// validateName checks a GreyRelease's metadata.name: the API server accepts any
// DNS subdomain, but dots, capital letters or more than 52 characters would make
// names and label values of children that it refuses.
func validateName(name string) field.ErrorList {
	if len(name) <= maxNameLength && len(validation.IsDNS1035Label(name)) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "name"), cut(name), fmt.Sprintf(
		`must be at most %d lower case letters, digits and "-", beginning with a letter and ending with a letter or digit: create the release again under such a name`,
		maxNameLength))}
}

var versionPattern = regexp.MustCompile(`^(?:[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}|sha256:[0-9a-f]{64})$`)

// The functions named check return what is wrong with a string and how to cure
// it, or "".

func checkVersion(v string) string {
	if versionPattern.MatchString(v) {
		return ""
	}
	return `must be an image tag alone (at most 128 letters, digits, "_", "." and "-", not beginning with "." or "-") or a digest "sha256:<64 hex digits>"`
}

func checkAppName(v string) string {
	if v != "" && len(validation.IsValidLabelValue(v)) == 0 {
		return ""
	}
	return `must be a label value: 1 to 63 letters, digits, "-", "_" and ".", beginning and ending with a letter or digit`
}

func checkStrategy(v string) string {
	switch Strategy(v) {
	case StrategyCanary, StrategyBlueGreen:
		return ""
	}
	return "must be Canary, which is also the default, or BlueGreen"
}

func checkSnapshotKind(v string) string {
	switch SnapshotKind(v) {
	case SnapshotConfigMap, SnapshotSecret:
		return ""
	}
	return "must be ConfigMap, which is also the default, or Secret"
}

// checkAscending checks that sizes grow, because they are cumulative. A number
// and a percentage are not compared: which one is larger depends on replicas, and
// an autoscaler must be free to change those. [1, "20%", 5, "50%"] passes,
// [1, "50%", "20%"] does not.
func checkAscending(path *field.Path, plan []batch, errs *field.ErrorList) {
	for i := 1; i < len(plan); i++ {
		prev, b := plan[i-1], plan[i]
		at := path.Index(i).Child("replicas")
		switch {
		case b.Pods > 0 && prev.Pods > 0 && b.Pods <= prev.Pods:
			*errs = append(*errs, field.Invalid(at, b.Pods, fmt.Sprintf(
				"must be greater than that of the batch before, %d: sizes include all earlier batches", prev.Pods)))
		case b.Percent > 0 && prev.Percent > 0 && b.Percent <= prev.Percent:
			*errs = append(*errs, field.Invalid(at, fmt.Sprintf("%d%%", b.Percent), fmt.Sprintf(
				`must be greater than that of the batch before, "%d%%": sizes include all earlier batches`, prev.Percent)))
		}
	}
}

// cut keeps a value that a user reads in a message to a readable length.
func cut(s string) string {
	const limit = 60
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "..."
}
