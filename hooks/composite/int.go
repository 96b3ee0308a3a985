package composite

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
)

// Int is a whole number of 64 bits that is read from any JSON spelling of it:
// 5, 5.0, 5e0 and 50e-1 are 5. Numbers travel as integers or as floats
// depending on who encoded them last, and a reader of int64 alone would refuse
// 5.0. What is no whole number (2.7), no number ("5", true) or does not fit
// (1e20) is an error that names the number; nothing is rounded or cut.
//
// A null leaves the number as it was. Use *Int where an absent or null number
// must be told from 0.
type Int int64

// UnmarshalJSON reads any JSON number that is whole. Its error is a
// *json.UnmarshalTypeError, to which the decoder adds the path of the field.
func (i *Int) UnmarshalJSON(data []byte) error {
	text := string(data)
	if text == "null" {
		return nil
	}
	n, ok := parseWhole(text)
	if !ok {
		return &json.UnmarshalTypeError{Value: describe(text), Type: reflect.TypeFor[Int]()}
	}
	*i = Int(n)
	return nil
}

// parseWhole reads a JSON number exactly, without a float in between: a
// float64 keeps only 53 bits, so 9007199254740993.0 would become ...992.
//
// It moves the decimal point in the text: 1.50e1 has the digits 150 and the
// exponent 1 - 2 = -1, so one trailing zero goes and 15 is left.
func parseWhole(text string) (int64, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	mantissa, exponent := text, 0
	if at := strings.IndexAny(text, "eE"); at >= 0 {
		var err error
		mantissa = text[:at]
		if exponent, err = strconv.Atoi(text[at+1:]); err != nil {
			return 0, false
		}
	}
	sign := ""
	if rest, negative := strings.CutPrefix(mantissa, "-"); negative {
		sign, mantissa = "-", rest
	}
	whole, fraction, _ := strings.Cut(mantissa, ".")
	digits := whole + fraction
	for _, digit := range digits {
		if digit < '0' || digit > '9' {
			return 0, false
		}
	}
	significant := strings.TrimRight(digits, "0")
	if significant == "" {
		return 0, digits != ""
	}
	zeros := exponent - len(fraction) + len(digits) - len(significant)
	// 19 digits hold every int64; more zeros than that never fit.
	if zeros < 0 || zeros > 19 {
		return 0, false
	}
	n, err := strconv.ParseInt(sign+significant+strings.Repeat("0", zeros), 10, 64)
	return n, err == nil
}

// describe names a JSON value for an error: number 2.7, string, object. A text is not
// repeated: errors are logged, and it may be anything.
func describe(text string) string {
	// 40 bytes show any number that somebody typed.
	const most = 40
	switch text[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case 't', 'f':
		return "bool " + text
	case '"':
		return "string"
	}
	if len(text) > most {
		text = text[:most] + "..."
	}
	return "number " + text
}
