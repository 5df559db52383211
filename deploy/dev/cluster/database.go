package cluster

import (
	"fmt"
	"os"

	"github.com/virtflow/virtflow/deploy/dev/controlplane"
)

// keptDatabase returns the kind of database with Temporal's histories in the state folder; "" if it has none.
func (c Cluster) keptDatabase() string {
	if controlplane.PostgresOf(c.Layout).Exists() {
		return controlplane.Postgres
	}
	if _, err := os.Stat(c.Layout.Path("temporal", "temporal.db")); err == nil {
		return controlplane.SQLite
	}
	return ""
}

// chooseDatabase decides where Temporal keeps its histories: in the existing database, and else in the requested one.
// Histories cannot be moved from one to the other.
func chooseDatabase(wanted, kept string) (string, error) {
	switch wanted {
	case "", controlplane.SQLite, controlplane.Postgres:
	default:
		return "", fmt.Errorf("TEMPORAL_DB is %q: give %s or %s", wanted, controlplane.SQLite, controlplane.Postgres)
	}
	switch {
	case kept == "" && wanted == "":
		return controlplane.SQLite, nil
	case kept == "":
		return wanted, nil
	case wanted == "" || wanted == kept:
		return kept, nil
	}
	return "", fmt.Errorf("this cluster has Temporal's histories in %s, and they cannot be moved to %s. Leave "+
		"TEMPORAL_DB out to continue with them, "+
		"or delete the cluster's state with make down PURGE=1 and begin again", kept, wanted)
}
