package upgrade

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// template is a pod template as somebody writes it, and what a version made of it
// in a first release.
type template struct {
	About    string          `json:"about"`
	Name     string          `json:"name"` // of the release
	AppName  string          `json:"appName,omitempty"`
	Version  string          `json:"version"`
	Template json.RawMessage `json:"template"`

	Hash       string          `json:"hash"`
	Rendered   json.RawMessage `json:"rendered"`
	Deployment json.RawMessage `json:"deployment"`
}

// templates are those of hooks/greyrelease/testdata, which have been to an API
// server, and some that are hard for other reasons.
func templates(root string) ([]template, error) {
	list := []template{
		{About: "a version that is a digest, and every kind of image", Version: "sha256:" + strings.Repeat("0af9", 16), Template: json.RawMessage(`{"spec":{"initContainers":[{"name":"init","image":"registry.example.com:5000/tools/init"}],"containers":[{"name":"a","image":"registry.example.com:5000/web"},{"name":"b","image":"proxy:1.2"},{"name":"c","image":"web@sha256:` + strings.Repeat("12", 32) + `"},{"name":"d","image":"localhost/web"}]}}`)},
		{About: "labels of the user's own, some of which are reserved", Version: "1.0", Template: json.RawMessage(`{"metadata":{"name":"not-taken","labels":{"app":"mine","tier":"front","pod-template-hash":"x","greyrelease.example.com/name":"x","greyrelease.example.com/other":"x"},"annotations":{"b":"2","a":"1"}},"spec":{"containers":[{"name":"web","image":"nginx"}]}}`)},
		{About: "an appName of its own, and a name of 52 characters", Name: "a123456789-123456789-123456789-123456789-123456789-1", AppName: "Shop_1.x", Version: "1.0", Template: json.RawMessage(`{"spec":{"containers":[{"name":"web","image":"nginx"}]}}`)},
		{About: "text of all kinds: HTML characters, escapes, separators, other scripts", Version: "v1.2.3-rc.1_x", Template: json.RawMessage(`{"metadata":{"annotations":{"html":"<a href='x'>&amp;</a>","lines":"a\tb\nc\\d\"e\/f","unicode":"\u00e9\u2028\u2029 灰度 \ud83d\ude80"}},"spec":{"containers":[{"name":"web","image":"nginx","command":["sh","-c","echo \"<&>\" > /dev/null"]}]}}`)},
		{About: "names in no order, empty and null members", Version: "1.10", Template: json.RawMessage(`{"spec":{"terminationGracePeriodSeconds":30,"nodeSelector":{},"hostAliases":[],"volumes":null,"containers":[{"resources":{"limits":{"memory":"1024Mi","cpu":0.5}},"image":"nginx","env":[{"name":"A","value":""},{"value":"1","name":"B"}],"name":"web","livenessProbe":null}],"activeDeadlineSeconds":null},"metadata":{"labels":{"z":"1","a":"2"},"annotations":{}}}`)},
	}
	paths, err := filepath.Glob(filepath.Join(root, "hooks", "greyrelease", "testdata", "templates", "*.json"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if filepath.Base(path) == "numbers.json" {
			continue // 3e1 for 30 is refused; an API server never sends it
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		var t template
		if err := json.Unmarshal(data, &t); err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", path, err)
		}
		t.Version = "1.28.0"
		list = append(list, t)
	}
	for i := range list {
		if list[i].Name == "" {
			list[i].Name = "web"
		}
	}
	return list, nil
}

// firstRelease is an instant at which releases begin here.
var firstRelease = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// release calls the hook twice, as in a first release: the first answer has the
// snapshot, and the second, to which that is shown, has the Deployment.
func (t *template) release() (template, error) {
	made := *t
	first, err := t.answer(nil)
	if err != nil {
		return made, err
	}
	kept := object{}
	for _, raw := range first {
		var c object
		if err := json.Unmarshal(raw, &c); err != nil {
			return made, fmt.Errorf("cannot read child: %w", err)
		}
		metadata := c["metadata"].(object)
		name := metadata["name"].(string)
		metadata["namespace"], metadata["uid"], metadata["resourceVersion"] = "default", name, "1"
		// A write that is none of dynamic apply, which some of the templates can't take.
		metadata["managedFields"] = []any{object{"manager": "metacontroller", "operation": "Apply"}}
		kept["default/"+name] = c
		if data, ok := c["data"].(object); ok && data["template.json"] != nil {
			made.Rendered = json.RawMessage(data["template.json"].(string))
			made.Hash, _ = metadata["labels"].(object)[prefix+"revision"].(string)
		}
	}
	second, err := t.answer(kept)
	if err != nil {
		return made, err
	}
	for _, raw := range second {
		var c child
		if err := json.Unmarshal(raw, &c); err != nil {
			return made, fmt.Errorf("cannot read child: %w", err)
		}
		if c.Kind == "Deployment" {
			made.Deployment = raw
		}
	}
	if made.Hash == "" || made.Deployment == nil {
		return made, fmt.Errorf("%s: no snapshot or no Deployment was asked for: %s", t.About, second)
	}
	return made, nil
}

// answer returns the children that are asked for while those are there.
func (t *template) answer(configMaps object) ([]json.RawMessage, error) {
	spec := object{"replicas": 3, "targetVersion": t.Version, "template": t.Template}
	if t.AppName != "" {
		spec["appName"] = t.AppName
	}
	request, err := json.Marshal(object{
		"parent": object{
			"apiVersion": "greyrelease.example.com/v1", "kind": "GreyRelease",
			"metadata": object{
				"name": t.Name, "namespace": "default", "uid": "5f0c", "generation": 1,
				"creationTimestamp": firstRelease.Format(time.RFC3339),
			},
			"spec": spec,
		},
		"children": object{groups["ConfigMap"]: configMaps, groups["Deployment"]: object{}},
	})
	if err != nil {
		return nil, fmt.Errorf("cannot write request: %w", err)
	}
	body, err := sync(request, firstRelease)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Status   struct{ Phase, Message string }
		Children []json.RawMessage
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("cannot read answer: %w", err)
	}
	if answer.Status.Phase == "Invalid" {
		return nil, fmt.Errorf("%s: %s", t.About, answer.Status.Message)
	}
	return answer.Children, nil
}

// differences says what of then is not so any more.
func (t *template) differences(now template) []string {
	var list []string
	for _, part := range []struct{ what, want, got string }{
		{"hash", t.Hash, now.Hash},
		{"rendered template", string(t.Rendered), string(now.Rendered)},
		{"first Deployment", string(t.Deployment), string(now.Deployment)},
	} {
		if part.want != part.got {
			list = append(list, fmt.Sprintf("%s\nwant %s\ngot  %s", part.what, part.want, part.got))
		}
	}
	return list
}
