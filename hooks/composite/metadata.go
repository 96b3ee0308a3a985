package composite

// Metadata is what hooks need of an object's metadata. The fields that grow
// without bound and that nobody reads (managedFields[].fieldsV1) are skipped
// by the decoder and never allocated.
type Metadata struct {
	Name            string `json:"name"`
	Namespace       string `json:"namespace"`
	UID             string `json:"uid"`
	ResourceVersion string `json:"resourceVersion"`
	Generation      int64  `json:"generation"`
	// CreationTimestamp and DeletionTimestamp are RFC 3339 as the API server
	// wrote them, or empty where absent or null.
	CreationTimestamp string            `json:"creationTimestamp"`
	DeletionTimestamp string            `json:"deletionTimestamp"`
	Labels            map[string]string `json:"labels"`
	Annotations       map[string]string `json:"annotations"`
	OwnerReferences   []OwnerReference  `json:"ownerReferences"`
	ManagedFields     []ManagedField    `json:"managedFields"`
}

// OwnerReference is an owner of an object. At most one has Controller set.
type OwnerReference struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	UID        string `json:"uid"`
	Controller bool   `json:"controller"`
}

// ManagedField says who wrote to an object and how, without which fields.
// Metacontroller's own entry tells its apply mode: the operation is Update
// under dynamic apply and Apply under server-side apply.
type ManagedField struct {
	Manager     string `json:"manager"`
	Operation   string `json:"operation"`
	Subresource string `json:"subresource"`
	Time        string `json:"time"`
}
