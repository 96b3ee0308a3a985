package greyrelease

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"greyrelease.example.com/hooks/composite"
	"greyrelease.example.com/hooks/jsontree"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// object reads the fields of one JSON object and collects what is wrong with
// them. Its methods write into their target only what is present and legal, so
// that a default stands where a field is absent, null or wrong, and an explicit
// zero replaces it. Those that others depend on return false for a wrong value.
//
// Names are compared exactly. encoding/json's structs would take "Replicas" for
// "replicas", which the API server does not.
type object struct {
	path   *field.Path
	fields []jsontree.Field
	errs   *field.ErrorList
}

func newObject(path *field.Path, raw json.RawMessage, cure string, errs *field.ErrorList) (object, bool) {
	o := object{path: path, errs: errs}
	if absent(raw) {
		*errs = append(*errs, field.Required(path, cure))
		return o, false
	}
	fields, ok := jsontree.Fields(raw)
	if !ok {
		*errs = append(*errs, field.Invalid(path, shown(raw), "must be an object: "+cure))
		return o, false
	}
	o.fields = fields
	return o, true
}

// raw is the text of a field, nil if it is absent. Of a name that stands twice
// the last counts, as for the API server.
func (o object) raw(name string) json.RawMessage {
	for _, f := range slices.Backward(o.fields) {
		if f.Name == name {
			return f.Raw
		}
	}
	return nil
}

func (o object) invalid(name, detail string) {
	*o.errs = append(*o.errs, field.Invalid(o.path.Child(name), shown(o.raw(name)), detail))
}

func (o object) required(name, cure string) bool {
	if !absent(o.raw(name)) {
		return true
	}
	*o.errs = append(*o.errs, field.Required(o.path.Child(name), cure))
	return false
}

func (o object) integer(name string, from, to int64, into *int64) bool {
	raw := o.raw(name)
	if absent(raw) {
		return true
	}
	if n, ok := wholeNumber(raw); ok && n >= from && n <= to {
		*into = n
		return true
	}
	o.invalid(name, fmt.Sprintf("must be a whole number from %d to %d%s", from, to, unquoted(raw)))
	return false
}

// optional is integer from 0 for a field whose absence is not the same as any number.
func (o object) optional(name string, to int64, into **int64) {
	n := new(int64)
	if !absent(o.raw(name)) && o.integer(name, 0, to, n) {
		*into = n
	}
}

func (o object) boolean(name string, into *bool) bool {
	raw := o.raw(name)
	if absent(raw) {
		return true
	}
	if json.Unmarshal(raw, into) == nil {
		return true
	}
	o.invalid(name, "must be true or false"+unquoted(raw))
	return false
}

// text reads a string and never makes one of a number: YAML has already turned an
// unquoted 1.10 into 1.1 and 20161216 into 2.0161216e+07.
func (o object) text(name string, into *string, check func(string) string) {
	raw := o.raw(name)
	if absent(raw) {
		return
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		o.invalid(name, stringWanted(raw))
		return
	}
	if wrong := check(s); wrong != "" {
		o.invalid(name, wrong)
		return
	}
	*into = s
}

var percentPattern = regexp.MustCompile(`^(?:0|[1-9][0-9]?|100)%$`)

// quantity reads a number of pods or a percentage. One rule serves batches,
// maxSurge and maxUnavailable: a whole number, or a string of digits and "%" up
// to "100%", both beginning at from. "25", "-10%", "12.5%", "150%", "", " 10%",
// "10 %", "007%" and 1.5 are refused everywhere.
func (o object) quantity(name string, from int64, into *quantity) bool {
	raw := o.raw(name)
	if absent(raw) {
		return true
	}
	q, ok := decodeQuantity(raw)
	if ok && q.Value >= from && q.Value <= maxNumber {
		*into = q
		return true
	}
	o.invalid(name, fmt.Sprintf(`must be a whole number of pods from %d to %d or a percentage from "%d%%" to "100%%"`, from, maxNumber, from))
	return false
}

func decodeQuantity(raw json.RawMessage) (quantity, bool) {
	if n, ok := wholeNumber(raw); ok {
		return quantity{Value: n}, true
	}
	var s string
	if json.Unmarshal(raw, &s) != nil || !percentPattern.MatchString(s) {
		return quantity{}, false
	}
	n, err := strconv.ParseInt(strings.TrimSuffix(s, "%"), 10, 64)
	return quantity{Value: n, Percent: true}, err == nil
}

// wholeNumber accepts 5, 5.0 and 5e0, because a number takes any of these forms
// on its way through YAML, JSON and other controllers.
func wholeNumber(raw json.RawMessage) (int64, bool) {
	var n composite.Int
	if n.UnmarshalJSON(raw) != nil {
		return 0, false
	}
	return int64(n), true
}

func absent(raw json.RawMessage) bool {
	return len(raw) == 0 || bytes.Equal(raw, []byte("null"))
}

// shown is the value that an error repeats: scalars as they were written, cut to
// a readable length; objects and lists not at all.
func shown(raw json.RawMessage) any {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return cut(s)
	}
	switch {
	case len(raw) == 0 || raw[0] == '{' || raw[0] == '[' || !json.Valid(raw):
		return field.OmitValueType{}
	case len(raw) > 60:
		return cut(string(raw))
	}
	return raw
}

func isString(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '"' }

func unquoted(raw json.RawMessage) string {
	if isString(raw) {
		return ", without quotes"
	}
	return ""
}

func stringWanted(raw json.RawMessage) string {
	switch {
	case len(raw) == 0 || raw[0] == '{' || raw[0] == '[':
		return "must be a string"
	case bytes.ContainsAny(raw, "eE") && raw[0] != 't' && raw[0] != 'f', len(raw) > 60:
		return "must be a string: quote it"
	}
	return fmt.Sprintf("must be a string: quote it, as in %q", raw)
}
