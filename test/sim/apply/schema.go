package apply

import "strings"

// Type says how server-side apply merges a value. The zero type, and a nil one,
// is right for most of the Kubernetes API: structures are merged field by field
// and lists are replaced whole.
type Type struct {
	// Fields are the types of named fields that are not the zero type.
	Fields map[string]*Type
	// Keys make a list of objects a map-list: these fields tell items apart.
	Keys []Key
	// Item is the type of a map-list's items.
	Item *Type
	// Set makes a list of scalars a set.
	Set bool
	// Open is a map with free keys: labels, data.
	Open bool
	// Atomic is a map or structure that has one owner and is replaced whole.
	Atomic bool
}

// Key is a field that tells the items of a map-list apart.
type Key struct {
	Name    string
	Default string // what an item that lacks the field counts as; "" for none
}

func (t *Type) atomic() bool      { return t != nil && t.Atomic }
func (t *Type) open() bool        { return t != nil && t.Open }
func (t *Type) associative() bool { return t != nil && (t.Set || len(t.Keys) > 0) }

func (t *Type) field(name string) *Type {
	if t == nil {
		return nil
	}
	return t.Fields[name]
}

func (t *Type) item() *Type {
	if t == nil {
		return nil
	}
	return t.Item
}

// below returns the type of the place one path element down.
func (t *Type) below(element string) *Type {
	if name, ok := strings.CutPrefix(element, "f:"); ok {
		return t.field(name)
	}
	return t.item()
}

// element spells the place of an item in this list.
func (t *Type) element(item any) string {
	if t.Set {
		return "v:" + jsonText(item)
	}
	keys := make(map[string]any, len(t.Keys))
	for _, key := range t.Keys {
		if v := Field(item, key.Name); v != nil {
			keys[key.Name] = v
		} else if key.Default != "" {
			keys[key.Name] = key.Default
		}
	}
	return "k:" + jsonText(keys)
}

func (t *Type) index(list []any) map[string]any {
	index := make(map[string]any, len(list))
	for _, item := range list {
		index[t.element(item)] = item
	}
	return index
}

func mapList(item *Type, keys ...string) *Type {
	t := &Type{Item: item}
	for _, name := range keys {
		name, def, _ := strings.Cut(name, "=")
		t.Keys = append(t.Keys, Key{Name: name, Default: def})
	}
	return t
}

var (
	atomic = &Type{Atomic: true}
	open   = &Type{Open: true}
	set    = &Type{Set: true}

	metadata = &Type{Fields: map[string]*Type{
		"annotations":     open,
		"finalizers":      set,
		"labels":          open,
		"ownerReferences": mapList(atomic, "uid"),
	}}

	envSource = &Type{Fields: map[string]*Type{
		"configMapKeyRef":  atomic,
		"fieldRef":         atomic,
		"fileKeyRef":       atomic,
		"resourceFieldRef": atomic,
		"secretKeyRef":     atomic,
	}}

	container = &Type{Fields: map[string]*Type{
		"env":   mapList(&Type{Fields: map[string]*Type{"valueFrom": envSource}}, "name"),
		"ports": mapList(nil, "containerPort", "protocol=TCP"),
		"resources": {Fields: map[string]*Type{
			"claims":   mapList(nil, "name"),
			"limits":   open,
			"requests": open,
		}},
		"volumeDevices": mapList(nil, "devicePath"),
		"volumeMounts":  mapList(nil, "mountPath"),
	}}

	podTemplate = &Type{Fields: map[string]*Type{
		"metadata": metadata,
		"spec": {Fields: map[string]*Type{
			"affinity": {Fields: map[string]*Type{
				"nodeAffinity": {Fields: map[string]*Type{
					"requiredDuringSchedulingIgnoredDuringExecution": atomic,
				}},
			}},
			"containers":       mapList(container, "name"),
			"hostAliases":      mapList(nil, "ip"),
			"imagePullSecrets": mapList(atomic, "name"),
			"initContainers":   mapList(container, "name"),
			"nodeSelector":     atomic,
			"overhead":         open,
			"resourceClaims":   mapList(nil, "name"),
			"schedulingGates":  mapList(nil, "name"),
			"topologySpreadConstraints": mapList(
				&Type{Fields: map[string]*Type{"labelSelector": atomic}},
				"topologyKey", "whenUnsatisfiable"),
			"volumes": mapList(nil, "name"),
		}},
	}}

	schemas = map[string]*Type{
		"ConfigMap": {Fields: map[string]*Type{
			"binaryData": open,
			"data":       open,
			"metadata":   metadata,
		}},
		"Deployment": {Fields: map[string]*Type{
			"metadata": metadata,
			"spec": {Fields: map[string]*Type{
				"selector": atomic,
				"template": podTemplate,
			}},
		}},
		"Secret": {Fields: map[string]*Type{
			"data":     open,
			"metadata": metadata,
		}},
		"Service": {Fields: map[string]*Type{
			"metadata": metadata,
			"spec": {Fields: map[string]*Type{
				"ports":    mapList(nil, "port", "protocol=TCP"),
				"selector": atomic,
			}},
		}},
	}
	custom = &Type{Fields: map[string]*Type{"metadata": metadata}}
)

// Schema returns the merge type of an object of this kind. Kinds that it does
// not know are merged as custom resources without list types.
func Schema(kind string) *Type {
	if t, ok := schemas[kind]; ok {
		return t
	}
	return custom
}
