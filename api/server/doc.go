// Package server assembles the api server process: configuration, certificates, webhook server, health and metrics.
package server
