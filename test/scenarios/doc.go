// Package scenarios tells stories of releases on the simulated cluster and
// checks how they go. Each file in testdata is one story; the tests beside them
// are about single requests and answers.
//
// A story begins with a comment that says what it is about and why. Then come
// blocks, divided by empty lines: commands, one a line, then "----", then what
// they print. "go test ./test/scenarios -update" writes the printed lines anew;
// an expectation that does not hold fails the story either way. YAML for a
// command stands in braces on its line or, indented by two spaces, below it.
//
// The release is called web, its revisions are numbered, and a story goes the
// same way in both apply modes unless a line "modes: dynamic" or "modes: ssa"
// below the comment says for which one it is. A line "controllers: 3s" there
// makes the controllers of Kubernetes, the garbage collector among them, take
// that long instead of 10 ms. "kinds: httproutes ingresses secrets endpointslices pods" is for an
// installation whose overlays have those too. All rules of the simulator are checked
// throughout.
//
// What people and other programs do:
//
//	create {replicas: 3}     creates the release; a template and targetVersion "1.0" go without saying
//	edit {targetVersion: "2.0"} merges into the spec
//	metadata {labels: {a: b}} merges into the metadata
//	scale 5                  through the scale subresource, as an autoscaler does
//	command promote 2.1@4    sets the command annotation; "command" alone removes it
//	obey promote             runs the line that the message prints for promote, abort or retry
//	poke 50 30s              changes an annotation of the release 50 times, every 30 seconds
//	delete release|status|record|deployment N|snapshot N|secret N|named NAME [Background|Foreground|Orphan]
//	delete service N|service NAME|httproute NAME|ingress NAME
//	patch deployment N|snapshot N|secret N|record|named NAME|service N|httproute NAME|ingress NAME {...}
//	hand-scale N 5           scales the Deployment of revision N
//	rollout-restart N        kubectl rollout restart of that Deployment
//	object {...}             applies any object
//	relabel                  gives ownerless children the uid of the release as a label
//
// What happens to the cluster:
//
//	behave V ready=5s ...    how pods of version V behave that start from now on: ready, hang, crash,
//	                         image, config, oom, "says=last words" (each # is the number of restarts),
//	                         crash-after, up, down, grace
//	turn V ready=5s ...      the same, and those that run start anew
//	kill-pods N 2            deletes pods of revision N
//	lose-node 1, return-node 1, quota 12, capacity 12
//	metric errors 0.2        what queries beginning with "errors" give from now on: a number, or a problem in
//	                         quotes; before, they give no data
//	prometheus absent|there|delay 8s|restart
//	                         whether the service was told of one, how long answers take, and a restart of the
//	                         service, which loses what it asked; "metric" makes it there
//	freeze deployments|configmaps|releases|services|... 30s, thaw
//	gateway program=2s status=5s refuse=REASON silent other=accepts|refuses
//	                         how long proxies take to go by a route and the gateway to report, and what it
//	                         and another gateway report; gateway alone is as in the beginning
//	faults lost=0.3 answered=0.1 conflict=0.2; faults alone ends them
//	hook down|up
//	restart [20s]            of Metacontroller, with caches that old
//	reload [20s]             the CompositeController is edited
//	kinds secrets ...        the CompositeController has these kinds beyond the base from now on
//	mode dynamic|ssa         restarts Metacontroller with that apply mode
//
// How time passes:
//
//	run 30s
//	until phase=Healthy ... within 10m, then to the end of that second
//	watch 2m                 prints a line whenever it changes
//	watch-until phase=Healthy ... within 10m
//
// What is looked at:
//
//	shares                   how the requests divide: at the route, with the headers, at the root Service and at
//	                         the preview, by revision; with spec.traffic each line shows it
//	services                 the Services and what they select
//	show                     time, phase, batch, each revision's pods asked for, ready and available, weight, message;
//	                         the kubectl line that gives a command is shown as [promote 2.1@4]
//	line                     the same without the message
//	conditions, history, writes, deployments, analysis
//	mark                     begins a new period for new-pods, lowest, highest, writes (that change something),
//	                         events and syncs
//	expect asked.2=3 ...     fields of status, condition.Ready, reason.Ready, asked, ready and available (of all or
//	                         of a revision), new-pods.N, lowest, highest, writes, events, syncs, snapshots, secrets,
//	                         share.N, share.headers.N, share.root.N and share.preview.N (in percent), lost (the
//	                         largest share of requests since the mark that nobody answered), services,
//	                         deployments, message~"text", last-command~"text", quiet; with = != >= <= ~ !~
package scenarios
