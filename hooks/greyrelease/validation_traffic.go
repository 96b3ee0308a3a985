package greyrelease

import (
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

func checkServiceName(v string) string {
	if len(validation.IsDNS1035Label(v)) == 0 {
		return ""
	}
	return `must be at most 63 lower case letters, digits and "-", beginning with a letter and ending with a letter or digit`
}

func checkStableScaleDown(v string) string {
	switch StableScaleDown(v) {
	case StableOnPromotion, StableWithBatches:
		return ""
	}
	return "must be OnPromotion, which is also the default, or WithBatches"
}

func checkPortName(v string) string {
	if len(validation.IsDNS1123Label(v)) == 0 {
		return ""
	}
	return `must be at most 63 lower case letters, digits and "-", beginning and ending with a letter or digit`
}

func checkTargetPort(v string) string {
	if len(validation.IsValidPortName(v)) == 0 {
		return ""
	}
	return `must be a port number from 1 to 65535 or the name of a container's port: at most 15 lower case letters, digits and "-", with a letter among them`
}

const protocolTCP = "TCP"

func checkProtocol(v string) string {
	switch v {
	case protocolTCP, "UDP", "SCTP":
		return ""
	}
	return "must be TCP, which is also the default, UDP or SCTP"
}

func checkAppProtocol(v string) string {
	if len(validation.IsQualifiedName(v)) == 0 {
		return ""
	}
	return `must be the name of a protocol, as in "http" or "kubernetes.io/h2c"`
}

// checkHost takes a host name or one with "*." in front, and no address: the rule
// that both HTTPRoutes and Ingresses have.
func checkHost(v string) string {
	if strings.HasPrefix(v, "*.") && len(validation.IsWildcardDNS1123Subdomain(v)) == 0 || len(validation.IsDNS1123Subdomain(v)) == 0 && !addressPattern.MatchString(v) {
		return ""
	}
	return `must be a DNS name in lower case, as in "shop.example.com" or "*.example.com", without port or address`
}

var addressPattern = regexp.MustCompile(`^[0-9.]+$`)

func checkNamespace(v string) string {
	if len(validation.IsDNS1123Label(v)) == 0 {
		return ""
	}
	return `must be the name of a namespace: at most 63 lower case letters, digits and "-", beginning and ending with a letter or digit`
}

func checkSubdomain(v string) string {
	if len(validation.IsDNS1123Subdomain(v)) == 0 {
		return ""
	}
	return `must be a name of at most 253 lower case letters, digits, "-" and ".", beginning and ending with a letter or digit`
}

var pathPattern = regexp.MustCompile(`^/(?:[-A-Za-z0-9/._~!$&'()*+,;=:@]|%[0-9a-fA-F]{2})*$`)

// checkPath holds the rules of both HTTPRoute and Ingress for paths of type Prefix.
func checkPath(v string) string {
	if !pathPattern.MatchString(v) || len(v) > 1024 {
		return `must begin with "/" and be at most 1024 characters of a URL's path, without "?" and "#"`
	}
	lower := strings.ToLower(v)
	for _, part := range []string{"//", "/./", "/../", "%2f"} {
		if strings.Contains(lower, part) {
			return `must not contain "//", "/./", "/../" or "%2F"`
		}
	}
	if strings.HasSuffix(v, "/.") || strings.HasSuffix(v, "/..") {
		return `must not end with "/." or "/.."`
	}
	return ""
}

var headerPattern = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,256}$")

func checkHeaderName(v string) string {
	if headerPattern.MatchString(v) {
		return ""
	}
	return `must be 1 to 256 letters, digits and characters of !#$%&'*+-.^_|~`
}

func checkHeaderValue(v string) string {
	if len(v) >= 1 && len(v) <= 4096 {
		return ""
	}
	return "must be 1 to 4096 characters"
}

var nginxPattern = regexp.MustCompile(`^[A-Za-z0-9/._~:-]{1,256}$`)

// checkNginx is what ingress-nginx accepts in its annotations for headers; all else
// it drops without a word.
func checkNginx(v string) string {
	if nginxPattern.MatchString(v) {
		return ""
	}
	return `must be 1 to 256 letters, digits and characters of -._~:/`
}

var cookiePattern = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,128}$`)

func checkCookieName(v string) string {
	if cookiePattern.MatchString(v) {
		return ""
	}
	return `must be 1 to 128 letters, digits, "-", "_" and "."`
}
