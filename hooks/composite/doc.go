// Package composite is the wire protocol between Metacontroller's
// CompositeController and a hook: requests are decoded, answers are encoded.
// It knows nothing of what a hook decides.
//
// Requests are read tolerantly. Unknown fields are skipped, so that a newer
// Metacontroller or API server does no harm. The keys under children[group]
// differ between hook version v1 ("name") and v2 ("namespace/name") and mean
// nothing here: readers look at each object's own metadata.
//
// What would change the meaning of a request is refused as a BadRequestError:
// text that is not JSON or not UTF-8, anything after the first JSON value, no
// parent, no children (an answer made without seeing the children would delete
// them), a null in place of an object, a field of the wrong type, nesting
// deeper than 10,000 levels (the limit of the JSON decoder).
//
// Field names are matched exactly, as the API server does: "Parent" is an
// unknown field, not another spelling of "parent". encoding/json alone would
// let it overwrite the parent. A type that decodes itself (UnmarshalJSON) has
// to keep that promise for what is inside of it.
//
// A field that occurs twice in one object is read as the decoder of the API
// server reads it: a later scalar, list or raw value replaces the earlier one,
// a later object adds to the earlier one field by field, a later map entry
// replaces the earlier entry. Metacontroller marshals Go maps and can send no
// duplicates, so only a forged request has them, and a forged request changes
// nothing: it is answered to whoever forged it.
//
// Answers are written strictly: the same answer always gives the same bytes,
// with no field that Metacontroller does not know, no null child and no null
// list of children. What a child looks like is up to the hook.
package composite
