module greyrelease.example.com

go 1.26.0

require (
	github.com/go-chi/chi/v5 v5.3.1
	k8s.io/api v0.36.3
	k8s.io/apimachinery v0.36.3
	sigs.k8s.io/yaml v1.6.0
)
