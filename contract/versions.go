package contract

// Each observation names its object and version, and has whether the object is gone (see entity.Observed).

// Version returns the object's UID and version.
func (o *VMObservation) Version() (uid, resourceVersion string) { return o.UID, o.ResourceVersion }

// Vanished returns the field that is set when the object no longer exists.
func (o *VMObservation) Vanished() *bool { return &o.Gone }

// Unversion drops the version.
func (o *VMObservation) Unversion() { o.ResourceVersion = "" }

// Version returns the object's UID and version.
func (o *VMIObservation) Version() (uid, resourceVersion string) { return o.UID, o.ResourceVersion }

// Vanished returns the field that is set when the object no longer exists.
func (o *VMIObservation) Vanished() *bool { return &o.Gone }

// Unversion drops the version.
func (o *VMIObservation) Unversion() { o.ResourceVersion = "" }

// Version returns the object's UID and version.
func (o *PodObservation) Version() (uid, resourceVersion string) { return o.UID, o.ResourceVersion }

// Vanished returns the field that is set when the object no longer exists.
func (o *PodObservation) Vanished() *bool { return &o.Gone }

// Unversion drops the version.
func (o *PodObservation) Unversion() { o.ResourceVersion = "" }

// Version returns the object's UID and version.
func (o *NodeObservation) Version() (uid, resourceVersion string) { return o.UID, o.ResourceVersion }

// Vanished returns the field that is set when the object no longer exists.
func (o *NodeObservation) Vanished() *bool { return &o.Gone }

// Unversion drops the version.
func (o *NodeObservation) Unversion() { o.ResourceVersion = "" }

// Version returns the object's UID and version.
func (o *ReplicaSetObservation) Version() (uid, resourceVersion string) {
	return o.UID, o.ResourceVersion
}

// Vanished returns the field that is set when the object no longer exists.
func (o *ReplicaSetObservation) Vanished() *bool { return &o.Gone }

// Unversion drops the version.
func (o *ReplicaSetObservation) Unversion() { o.ResourceVersion = "" }

// Version returns the object's UID and version.
func (o *MigrationObservation) Version() (uid, resourceVersion string) {
	return o.UID, o.ResourceVersion
}

// Vanished returns the field that is set when the object no longer exists.
func (o *MigrationObservation) Vanished() *bool { return &o.Gone }

// Unversion drops the version.
func (o *MigrationObservation) Unversion() { o.ResourceVersion = "" }
