// Package upgrade keeps what earlier versions of the service left in clusters, and
// checks that the current one goes on from it as they would have: no template
// changes, no revision gets another number, no pod restarts, every record is read.
//
// Each folder of testdata was captured from one version and is never changed. It
// has
//
//   - STORY-MODE.jsonl.gz: the requests in the middle of a story, one a line, each
//     with what that version asked for then;
//   - recorded.jsonl.gz: the same for requests that came from a real Metacontroller;
//   - templates.jsonl: pod templates as users write them, each with its hash, the
//     template rendered from it and its first Deployment.
//
// To look into one:
//
//	zcat test/upgrade/testdata/v0.1/batches-dynamic.jsonl.gz | jq .then
//
// No flag updates these files. A new version captures into a folder that does not
// exist yet, and prints the line that goes into the list of folders:
//
//	go test ./test/upgrade -run TestCapture -capture v0.2
//
// A difference found here means that an upgrade would restart the pods of every
// release of that version, or lose its history. The code is to be changed then,
// not the files.
package upgrade
