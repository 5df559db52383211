package contract

// What an observation is of: the object and its version, and whether it exists no more (see entity.Observed).

// Version names the object and its version.
func (o *VMObservation) Version() (uid, resourceVersion string) { return o.UID, o.ResourceVersion }

// Vanished says that it exists no more.
func (o *VMObservation) Vanished() *bool { return &o.Gone }

// Unversion drops the version.
func (o *VMObservation) Unversion() { o.ResourceVersion = "" }

// Version names the object and its version.
func (o *VMIObservation) Version() (uid, resourceVersion string) { return o.UID, o.ResourceVersion }

// Vanished says that it exists no more.
func (o *VMIObservation) Vanished() *bool { return &o.Gone }

// Unversion drops the version.
func (o *VMIObservation) Unversion() { o.ResourceVersion = "" }

// Version names the object and its version.
func (o *PodObservation) Version() (uid, resourceVersion string) { return o.UID, o.ResourceVersion }

// Vanished says that it exists no more.
func (o *PodObservation) Vanished() *bool { return &o.Gone }

// Unversion drops the version.
func (o *PodObservation) Unversion() { o.ResourceVersion = "" }

// Version names the object and its version.
func (o *NodeObservation) Version() (uid, resourceVersion string) { return o.UID, o.ResourceVersion }

// Vanished says that it exists no more.
func (o *NodeObservation) Vanished() *bool { return &o.Gone }

// Unversion drops the version.
func (o *NodeObservation) Unversion() { o.ResourceVersion = "" }

// Version names the object and its version.
func (o *ReplicaSetObservation) Version() (uid, resourceVersion string) {
	return o.UID, o.ResourceVersion
}

// Vanished says that it exists no more.
func (o *ReplicaSetObservation) Vanished() *bool { return &o.Gone }

// Unversion drops the version.
func (o *ReplicaSetObservation) Unversion() { o.ResourceVersion = "" }

// Version names the object and its version.
func (o *MigrationObservation) Version() (uid, resourceVersion string) {
	return o.UID, o.ResourceVersion
}

// Vanished says that it exists no more.
func (o *MigrationObservation) Vanished() *bool { return &o.Gone }

// Unversion drops the version.
func (o *MigrationObservation) Unversion() { o.ResourceVersion = "" }
