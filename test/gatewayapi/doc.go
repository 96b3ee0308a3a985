// Package gatewayapi holds the HTTPRoutes of releases against the definitions that
// the Gateway API publishes, by the API server's own code. It is a module of its own,
// because the product needs none of these libraries.
package gatewayapi
