module greyrelease.example.com/test/e2e/gatewayapi

go 1.26.0

tool sigs.k8s.io/gateway-api/wasm

require sigs.k8s.io/gateway-api v1.6.1 // indirect
