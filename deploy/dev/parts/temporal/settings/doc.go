// Package settings turns temporal-dev.yaml and the command line's flags into the server's configuration, its dynamic
// configuration and the UI's configuration, and refuses what the server would silently ignore.
package settings
