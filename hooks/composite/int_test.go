package composite

import (
	"encoding/json"
	"testing"
)

func TestIntReadsEveryWholeNumber(t *testing.T) {
	for text, want := range map[string]Int{
		"5": 5, "5.0": 5, "5e0": 5, "5E+0": 5, "50e-1": 5, "0.5e1": 5, "5.000000000000000000000000": 5,
		"0": 0, "-0": 0, "0.0": 0, "0e99999": 0, "-0.0e-5": 0,
		"-5": -5, "-5.0": -5, "-1.5e1": -15, "1.50e1": 15, "120e-1": 12, "1e2": 100, "100": 100, "100.0": 100,
		"9007199254740993": 9007199254740993, "9007199254740993.0": 9007199254740993,
		"9223372036854775807": 9223372036854775807, "9.223372036854775807e18": 9223372036854775807,
		"-9223372036854775808": -9223372036854775808, "-9223372036854775808.0": -9223372036854775808,
		"1e18": 1e18, "1000000000000000000000e-3": 1e18,
	} {
		var got Int
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Errorf("%s: want %d, got %v", text, want, err)
		}
		if want != got {
			t.Errorf("%s: want %d, got %d", text, want, got)
		}
	}
}

func TestIntRefusesAndNamesTheValue(t *testing.T) {
	for text, want := range map[string]string{
		`"5"`:                   `string`,
		`""`:                    `string`,
		`2.7`:                   `number 2.7`,
		`0.5`:                   `number 0.5`,
		`5e-1`:                  `number 5e-1`,
		`1e20`:                  `number 1e20`,
		`9223372036854775808`:   `number 9223372036854775808`,
		`-9223372036854775809`:  `number -9223372036854775809`,
		`1e999999999999999999`:  `number 1e999999999999999999`,
		`1e-999999999999999999`: `number 1e-999999999999999999`,
		`true`:                  `bool true`,
		`false`:                 `bool false`,
		`{}`:                    `object`,
		`[5]`:                   `array`,
		`0.1000000000000000000000000000000000000000000001`: `number 0.10000000000000000000000000000000000000...`,
	} {
		got := Int(7)
		err := json.Unmarshal([]byte(text), &got)
		if err == nil {
			t.Errorf("%s: want an error, got %d", text, got)
			continue
		}
		if want := "json: cannot unmarshal " + want + " into Go value of type composite.Int"; want != err.Error() {
			t.Errorf("%s: want %s\ngot %s", text, want, err)
		}
		if got != 7 {
			t.Errorf("%s: want the number left alone, got %d", text, got)
		}
	}
}

func TestIntTellsNullFromZero(t *testing.T) {
	var got struct{ Null, Absent, Zero *Int }
	if err := json.Unmarshal([]byte(`{"Null":null,"Zero":0}`), &got); err != nil {
		t.Fatal(err)
	}
	if got.Null != nil || got.Absent != nil {
		t.Errorf("want null and absent to be nil, got %v and %v", got.Null, got.Absent)
	}
	if got.Zero == nil || *got.Zero != 0 {
		t.Errorf("want 0, got %v", got.Zero)
	}
	kept := Int(7)
	if err := json.Unmarshal([]byte(`null`), &kept); err != nil || kept != 7 {
		t.Errorf("want null to leave 7, got %d and %v", kept, err)
	}
}

func TestIntIsWrittenAsAnInteger(t *testing.T) {
	got, err := json.Marshal(struct{ N Int }{1e18})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"N":1000000000000000000}`; want != string(got) {
		t.Errorf("want %s, got %s", want, got)
	}
}
