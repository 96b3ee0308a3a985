package apply

import "fmt"

// Merge is the three-way merge of dynamic apply. It starts from what was
// observed, drops what was applied last time and is no longer desired, and sets
// what is desired. The fourth party, fields that others have added, stays.
//
// A desired value of another type than an observed object or list counts as an
// empty one: a null is no deletion, it removes only what was applied last.
func Merge(observed, lastApplied, desired map[string]any) map[string]any {
	return mergeMap(CloneMap(observed), lastApplied, desired)
}

// mergeValue merges into dst, which it may change and return.
func mergeValue(dst, last, want any) any {
	switch dst := dst.(type) {
	case map[string]any:
		lastMap, _ := last.(map[string]any)
		wantMap, _ := want.(map[string]any)
		return mergeMap(dst, lastMap, wantMap)
	case []any:
		lastList, _ := last.([]any)
		wantList, _ := want.([]any)
		key := MergeKey(dst, lastList, wantList)
		if key == "" {
			return wantList
		}
		return mergeList(key, dst, lastList, wantList)
	}
	return want
}

func mergeMap(dst, last, want map[string]any) map[string]any {
	for k := range last {
		if _, ok := want[k]; !ok {
			delete(dst, k)
		}
	}
	for k, v := range want {
		dst[k] = mergeValue(dst[k], last[k], v)
	}
	return dst
}

// mergeList merges lists item by item. Of two items with one key the later one
// wins the place in the index, and every place in dst that has the key gets it:
// ports [{53, UDP}, {53, TCP}], merged with themselves, are 53/TCP twice.
func mergeList(key string, dst, last, want []any) []any {
	index := mergeMap(byKey(key, dst), byKey(key, last), byKey(key, want))
	merged := make([]any, 0, len(index))
	placed := make(map[string]bool, len(index))
	for _, item := range dst {
		k := keyOf(item, key)
		if v, ok := index[k]; ok {
			merged = append(merged, v)
			placed[k] = true
		}
	}
	for _, item := range want {
		k := keyOf(item, key)
		if !placed[k] {
			merged = append(merged, index[k])
			placed[k] = true
		}
	}
	return merged
}

func byKey(key string, list []any) map[string]any {
	index := make(map[string]any, len(list))
	for _, item := range list {
		index[keyOf(item, key)] = item
	}
	return index
}

func keyOf(item any, key string) string {
	v := item.(map[string]any)[key]
	if s, ok := v.(string); ok {
		return s
	}
	return fmt.Sprint(v)
}

// mergeKeys are the names that make a list a map-list, in order of precedence.
// port comes before name, so that ports of one number are one port whatever
// their names are.
var mergeKeys = []string{"containerPort", "port", "mountPath", "name", "uid", "ip", "path"}

// MergeKey returns the key by which dynamic apply merges a list of which these
// are the live, the last applied and the desired form: the first of its known
// names that every item of every form has. It is "" where an item is no object
// or no name is common to all; then the desired list replaces the live one.
func MergeKey(lists ...[]any) string {
	items := 0
	shared := make([]bool, len(mergeKeys))
	for i := range shared {
		shared[i] = true
	}
	for _, list := range lists {
		for _, item := range list {
			m, ok := item.(map[string]any)
			if !ok {
				return ""
			}
			items++
			for i, name := range mergeKeys {
				if _, ok := m[name]; !ok {
					shared[i] = false
				}
			}
		}
	}
	if items == 0 {
		return ""
	}
	for i, name := range mergeKeys {
		if shared[i] {
			return name
		}
	}
	return ""
}
