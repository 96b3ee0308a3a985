package apply

// Clone returns a deep copy of a JSON value.
func Clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return CloneMap(v)
	case []any:
		if v == nil {
			return v
		}
		list := make([]any, len(v))
		for i := range v {
			list[i] = Clone(v[i])
		}
		return list
	}
	return v
}

// CloneMap returns a deep copy of a JSON object. nil stays nil.
func CloneMap(m map[string]any) map[string]any {
	if m == nil {
		return nil
	}
	c := make(map[string]any, len(m))
	for k, v := range m {
		c[k] = Clone(v)
	}
	return c
}

// Equal tells whether two JSON values are the same to Metacontroller: 5 and 5.0
// differ, and so do an empty list and an absent one.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) || (a == nil) != (b == nil) {
			return false
		}
		for k, v := range a {
			w, ok := b[k]
			if !ok || !Equal(v, w) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) || (a == nil) != (b == nil) {
			return false
		}
		for i := range a {
			if !Equal(a[i], b[i]) {
				return false
			}
		}
		return true
	}
	switch b.(type) {
	case map[string]any, []any:
		return false
	}
	return a == b
}

// Field returns the value at a path of object fields, or nil.
func Field(v any, path ...string) any {
	for _, name := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[name]
	}
	return v
}

// Text returns the string at a path of object fields, or "".
func Text(v any, path ...string) string {
	s, _ := Field(v, path...).(string)
	return s
}

// Object returns the JSON object at a path of object fields, or nil.
func Object(v any, path ...string) map[string]any {
	m, _ := Field(v, path...).(map[string]any)
	return m
}

// List returns the list at a path of object fields, or nil.
func List(v any, path ...string) []any {
	l, _ := Field(v, path...).([]any)
	return l
}

// with returns a copy of m in which the value at the path is v. Only the maps
// along the path are copied; everything else is shared.
func with(m map[string]any, v any, path ...string) map[string]any {
	c := make(map[string]any, len(m)+1)
	for k, w := range m {
		c[k] = w
	}
	if len(path) == 1 {
		c[path[0]] = v
		return c
	}
	c[path[0]] = with(Object(m, path[0]), v, path[1:]...)
	return c
}

// without returns a copy of m that lacks the value at the path. Only the maps
// along the path are copied; m itself comes back when there is nothing to drop.
func without(m map[string]any, path ...string) map[string]any {
	v, ok := m[path[0]]
	if !ok {
		return m
	}
	child, isMap := v.(map[string]any)
	if len(path) > 1 && !isMap {
		return m
	}
	c := make(map[string]any, len(m))
	for k, w := range m {
		c[k] = w
	}
	if len(path) == 1 {
		delete(c, path[0])
		return c
	}
	c[path[0]] = without(child, path[1:]...)
	return c
}
