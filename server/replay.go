package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"greyrelease.example.com/hooks/composite"
	"greyrelease.example.com/hooks/greyrelease"
)

const replayUsage = `Usage: greyrelease replay FILE...

Decides again what --record-dir has recorded, and prints each decision with its
reason. Nothing is asked but the files. "differs" means that this version of the
service decides otherwise than the one that recorded.

Exit code: 0, 1 if a file cannot be read, 3 if a decision differs.
`

// replay is the command of that name.
func replay(paths []string, stdout, stderr io.Writer) int {
	if len(paths) == 0 || slices.ContainsFunc(paths, func(p string) bool { return strings.HasPrefix(p, "-") }) {
		fmt.Fprint(stderr, replayUsage)
		return 2
	}
	var calls []recorded
	for _, path := range paths {
		read, err := readCalls(path)
		if err != nil {
			fmt.Fprintf(stderr, "greyrelease: %s\n", err)
			return 1
		}
		calls = append(calls, read...)
	}
	// Files of several replicas are one story.
	slices.SortStableFunc(calls, func(a, b recorded) int { return a.Now.Compare(b.Now) })
	p := &player{out: stdout, last: map[string]string{}}
	for i := range calls {
		p.play(&calls[i])
	}
	fmt.Fprintf(stdout, "%d calls, %d of them without news, %d not readable, %d differ\n", len(calls), p.same, p.unreadable, p.differ)
	if p.differ > 0 {
		return 3
	}
	return 0
}

// readCalls reads a file. Its last line may be cut off, where the process ended.
func readCalls(path string) ([]recorded, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read recorded calls: %w", err)
	}
	defer file.Close()
	var calls []recorded
	for reader := bufio.NewReader(file); ; {
		line, err := reader.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return calls, nil
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read recorded calls: %w", err)
		}
		var call recorded
		if err := json.Unmarshal(line, &call); err != nil {
			return nil, fmt.Errorf("cannot read call %d of %s: %w", len(calls)+1, path, err)
		}
		if call.Format != recordFormat {
			return nil, fmt.Errorf("cannot read call %d of %s: it has format %d, this version reads %d", len(calls)+1, path, call.Format, recordFormat)
		}
		calls = append(calls, call)
	}
}

// player decides calls again.
type player struct {
	out io.Writer
	// last is what was told of each release.
	last                     map[string]string
	same, unreadable, differ int
}

func (p *player) play(call *recorded) {
	subject := cmp.Or(call.Subject, call.Hook)
	if call.Request == nil {
		p.unreadable++
		fmt.Fprintf(p.out, "%s %s: %d %s\n", instant(call), subject, call.Decided.Code, call.Decided.Error)
		return
	}
	d := again(call)
	text := tell(call, observed(call), d)
	if !reflect.DeepEqual(call.Decided, d) {
		p.differ++
		text += fmt.Sprintf("    differs from what %s decided: %s\n", strings.TrimSpace(call.Service), compact(call.Decided))
	} else if key := call.Hook + " " + subject; p.last[key] == text {
		p.same++
		return
	} else {
		p.last[key] = text
	}
	fmt.Fprintf(p.out, "%s %s: %s", instant(call), subject, text)
}

// again decides a call as it was decided then.
func again(call *recorded) decision {
	body, err := decideAgain(call)
	if err != nil {
		f := failureOf(err)
		f.line = string(original([]byte(f.line), call.Renamed))
		return decide(nil, &f)
	}
	return decide(original(body, call.Renamed), nil)
}

func decideAgain(call *recorded) ([]byte, error) {
	if call.Hook == "customize" {
		request, err := greyrelease.DecodeCustomize(call.Request)
		if err != nil {
			return nil, err
		}
		response, err := greyrelease.Customize(request)
		if err != nil {
			return nil, err
		}
		return response.Encode()
	}
	request, err := greyrelease.DecodeSync(call.Request)
	if err != nil {
		return nil, err
	}
	response, err := greyrelease.Sync(request, call.Measurements, call.Now)
	if err != nil {
		return nil, err
	}
	return response.Encode()
}

// failureOf is how the service answers an error of a hook.
func failureOf(err error) failure {
	f := failure{code: 500, line: err.Error()}
	var bad *composite.BadRequestError
	var retry *composite.RetryError
	switch {
	case errors.As(err, &retry):
		f.code, f.retryAfter = 429, retry.After
	case errors.As(err, &bad):
		f.code = 400
	}
	return f
}

// seen is what a call was about.
type seen struct {
	phase    string
	replicas map[string]int64
}

func observed(call *recorded) seen {
	var request struct {
		Parent   struct{ Status struct{ Phase string } }
		Children map[string]map[string]struct {
			Kind     string
			Metadata struct{ Name string }
			Spec     struct{ Replicas *int64 }
		}
	}
	s := seen{replicas: map[string]int64{}}
	if err := json.Unmarshal(original(call.Request, call.Renamed), &request); err != nil {
		return s
	}
	s.phase = request.Parent.Status.Phase
	for _, group := range request.Children {
		for _, child := range group {
			if child.Kind == "Deployment" && child.Spec.Replicas != nil {
				s.replicas[child.Metadata.Name] = *child.Spec.Replicas
			}
		}
	}
	return s
}

// tell is a decision in words: the change of phase, the reason, and what is to be
// done.
func tell(call *recorded, was seen, d decision) string {
	if d.Error != "" {
		return fmt.Sprintf("%d %s\n", d.Code, d.Error)
	}
	if call.Hook == "customize" {
		return "customize\n"
	}
	var text strings.Builder
	if was.phase != d.Phase {
		text.WriteString(cmp.Or(was.phase, "new") + " -> ")
	}
	text.WriteString(d.Phase + "\n")
	if d.Message != "" {
		fmt.Fprintf(&text, "    %s\n", d.Message)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Replicas)) {
		before, there := was.replicas[name]
		switch after := d.Replicas[name]; {
		case !there:
			fmt.Fprintf(&text, "    make Deployment %s with %d\n", name, after)
		case before != after:
			fmt.Fprintf(&text, "    scale Deployment %s from %d to %d\n", name, before, after)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(was.replicas)) {
		if _, stays := d.Replicas[name]; !stays {
			fmt.Fprintf(&text, "    delete Deployment %s, which had %d\n", name, was.replicas[name])
		}
	}
	return text.String()
}

func instant(call *recorded) string {
	return call.Now.UTC().Format("2006-01-02T15:04:05Z")
}

func compact(d decision) string {
	text, err := encodePlain(d)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
