package haproxy

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Config is what the proxy does with requests.
type Config struct {
	Frontends []Frontend
	// Services are the addresses of each Service's ready endpoints, as
	// "127.0.0.1:4711". A Service without one answers 503.
	Services map[string][]string
}

// Frontend is a port with its rules. The first rule that matches decides; a request
// that none matches gets 404.
type Frontend struct {
	Port  int
	Rules []Rule
}

// Rule sends the requests that match it to Services.
type Rule struct {
	// Hosts are names or, with "*." in front, all names below one; none means all.
	Hosts []string
	// Prefix of the path, by whole elements: /shop matches /shop and /shop/a, not
	// /shopping. "" or "/" matches all.
	Prefix string
	// Headers that a request must have, with these values.
	Headers map[string]string
	// Weights of the Services, in relation to their sum. If that is 0 requests get 500.
	Weights []Weight
	// Cookie, if not "", keeps a client on the Service that it was sent to first.
	Cookie string
}

// Weight is a Service's part of the requests.
type Weight struct {
	Service string
	Weight  int
}

// plain is what names and values may be made of: nothing that haproxy reads as
// syntax.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./:*@~-]+$`)

// render is the configuration file. The lot that decides between Services is drawn
// for each request, and the Service's servers come after: so a Service's share does
// not depend on how many endpoints it has, and is exact to the draw.
func (c Config) render(socket string) (string, error) {
	var b strings.Builder
	// A connection to a server for each request, and no second try: a pod that is
	// gone while it is still in the configuration is a lost request. A connection of
	// a client is closed by an answer only, never between two requests.
	fmt.Fprintf(&b, `global
  log stdout format raw local0
  stats socket %s mode 600 level admin expose-fd listeners
  hard-stop-after 60s
  maxconn 4000
  nbthread 1
defaults
  mode http
  log global
  option httplog
  option dontlog-normal
  option idle-close-on-response
  option http-server-close
  http-reuse never
  retries 0
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  timeout http-keep-alive 60s
backend none
  http-request return status 404
backend nowhere
  http-request return status 500
`, socket)
	for i, f := range c.Frontends {
		fmt.Fprintf(&b, "frontend f%d\n  bind 127.0.0.1:%d\n", i, f.Port)
		var uses strings.Builder
		for j, r := range f.Rules {
			if err := r.render(&b, &uses, fmt.Sprintf("r%d_%d", i, j)); err != nil {
				return "", err
			}
		}
		b.WriteString(uses.String())
		b.WriteString("  default_backend none\n")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		if !plain.MatchString(name) {
			return "", fmt.Errorf("cannot write service %q", name)
		}
		fmt.Fprintf(&b, "backend s_%s\n  balance roundrobin\n", name)
		for _, cookie := range c.cookies(name) {
			fmt.Fprintf(&b, "  http-response add-header Set-Cookie %s=%s unless { req.cook(%s) -m found }\n", cookie, name, cookie)
		}
		for i, address := range c.Services[name] {
			fmt.Fprintf(&b, "  server p%d %s\n", i, address)
		}
	}
	return b.String(), nil
}

// render writes what is drawn and matched for a rule, and what comes of it.
func (r Rule) render(b, uses *strings.Builder, name string) error {
	var when []string
	acl := func(what, criterion string, values ...string) error {
		for _, v := range values {
			if !plain.MatchString(v) {
				return fmt.Errorf("cannot match %q", v)
			}
		}
		id := fmt.Sprintf("%s_%s", name, what)
		fmt.Fprintf(b, "  acl %s %s %s\n", id, criterion, strings.Join(values, " "))
		if len(when) == 0 || when[len(when)-1] != id { // two lines of one name are alternatives
			when = append(when, id)
		}
		return nil
	}
	for _, host := range r.Hosts {
		criterion := "req.hdr(host),field(1,:) -m str -i"
		if below, ok := strings.CutPrefix(host, "*"); ok {
			criterion, host = "req.hdr(host),field(1,:) -m end -i", below
		}
		if err := acl("host", criterion, host); err != nil {
			return err
		}
	}
	if prefix := strings.TrimSuffix(r.Prefix, "/"); prefix != "" {
		if err := acl("path", "path", prefix); err != nil {
			return err
		}
		if err := acl("path", "path_beg", prefix+"/"); err != nil {
			return err
		}
	}
	for i, header := range slices.Sorted(maps.Keys(r.Headers)) {
		if !plain.MatchString(header) {
			return fmt.Errorf("cannot match header %q", header)
		}
		if err := acl(fmt.Sprintf("header%d", i), "req.fhdr("+header+") -m str", r.Headers[header]); err != nil {
			return err
		}
	}
	total := 0
	for _, w := range r.Weights {
		total += w.Weight
	}
	if total == 0 {
		fmt.Fprintf(uses, "  use_backend nowhere%s\n", condition(when))
		return nil
	}
	fmt.Fprintf(b, "  http-request set-var(txn.%s) rand(%d)\n", name, total)
	if r.Cookie != "" {
		for _, w := range r.Weights {
			if w.Weight == 0 {
				continue
			}
			pinned := fmt.Sprintf("{ req.cook(%s) -m str %s }", r.Cookie, w.Service)
			fmt.Fprintf(uses, "  use_backend s_%s%s\n", w.Service, condition(append(slices.Clone(when), pinned)))
		}
	}
	below := 0
	for _, w := range r.Weights {
		if w.Weight == 0 {
			continue
		}
		below += w.Weight
		drawn := fmt.Sprintf("{ var(txn.%s) -m int lt %d }", name, below)
		fmt.Fprintf(uses, "  use_backend s_%s%s\n", w.Service, condition(append(slices.Clone(when), drawn)))
	}
	return nil
}

func condition(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return " if " + strings.Join(all, " ")
}

// cookies are those that pin clients to a Service.
func (c Config) cookies(service string) []string {
	var cookies []string
	for _, f := range c.Frontends {
		for _, r := range f.Rules {
			if r.Cookie != "" && slices.ContainsFunc(r.Weights, func(w Weight) bool { return w.Service == service }) {
				cookies = append(cookies, r.Cookie)
			}
		}
	}
	slices.Sort(cookies)
	return slices.Compact(cookies)
}
