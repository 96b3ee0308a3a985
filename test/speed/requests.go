package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
)

type object = map[string]any

// request is a body and how many children it has.
type request struct {
	body     []byte
	children int
}

// requests are a release of a test that has just begun, one that waits in its second
// batch as it was recorded from a real API server, and that with 66 revisions of history,
// which the service makes itself.
func requests(service *hook) ([]request, error) {
	small, err := read("test/fixtures/progressing.request.json")
	if err != nil {
		return nil, err
	}
	usual, err := read("test/fixtures/recorded/dynamic-paused.request.json")
	if err != nil {
		return nil, err
	}
	large, err := grow(service, usual, 66)
	if err != nil {
		return nil, err
	}
	var all []request
	for _, body := range [][]byte{small, usual, large} {
		tree, err := decode(body)
		if err != nil {
			return nil, err
		}
		n := 0
		for _, group := range tree["children"].(object) {
			n += len(group.(object))
		}
		all = append(all, request{body, n})
	}
	return all, nil
}

// read reads a request, compact as Metacontroller sends it.
func read(name string) ([]byte, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read request, run this at the top of the repository: %w", err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return nil, fmt.Errorf("cannot read request: %w", err)
	}
	return compact.Bytes(), nil
}

// grow asks the service for one version after the other, and keeps the snapshots
// that it answers with as Metacontroller would show them.
func grow(service *hook, body []byte, snapshots int) ([]byte, error) {
	tree, err := decode(body)
	if err != nil {
		return nil, err
	}
	spec := tree["parent"].(object)["spec"].(object)
	configMaps := tree["children"].(object)["ConfigMap.v1"].(object)
	like := configMaps["default/web-rev-1"].(object)["metadata"].(object)
	version := spec["targetVersion"]
	spec["revisionHistoryLimit"] = 100
	for i := 0; len(configMaps) <= snapshots; i++ {
		if i > 2*snapshots {
			return nil, fmt.Errorf("cannot make %d snapshots: %d came", snapshots, len(configMaps))
		}
		spec["targetVersion"] = fmt.Sprintf("1.%d.0", 100+i)
		text, err := json.Marshal(tree)
		if err != nil {
			return nil, fmt.Errorf("cannot encode request: %w", err)
		}
		answer, err := service.post(text)
		if err != nil {
			return nil, err
		}
		answered, err := decode(answer)
		if err != nil {
			return nil, err
		}
		for _, child := range answered["children"].([]any) {
			made := child.(object)
			meta := made["metadata"].(object)
			key := "default/" + meta["name"].(string)
			if made["kind"] != "ConfigMap" || configMaps[key] != nil {
				continue
			}
			applied, err := json.Marshal(made)
			if err != nil {
				return nil, fmt.Errorf("cannot encode snapshot: %w", err)
			}
			stored := maps.Clone(like)
			annotations := maps.Clone(meta["annotations"].(object))
			annotations["metacontroller.k8s.io/last-applied-configuration"] = string(applied)
			stored["name"], stored["labels"], stored["annotations"] = meta["name"], meta["labels"], annotations
			made["metadata"] = stored
			configMaps[key] = made
		}
	}
	spec["targetVersion"] = version
	text, err := json.Marshal(tree)
	if err != nil {
		return nil, fmt.Errorf("cannot encode request: %w", err)
	}
	return text, nil
}

func decode(text []byte) (object, error) {
	var tree object
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber()
	if err := in.Decode(&tree); err != nil {
		return nil, fmt.Errorf("cannot read JSON: %w", err)
	}
	return tree, nil
}
