// Package server puts the api server process together: configuration, certificates, webhook server, health and metrics.
package server
