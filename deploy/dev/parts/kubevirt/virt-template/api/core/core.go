package core

// Groups and resources of the API.
const (
	GroupName                   = "template.kubevirt.io"
	SubresourcesGroupName       = "subresources.template.kubevirt.io"
	SingularResourceName        = "virtualmachinetemplate"
	PluralResourceName          = "virtualmachinetemplates"
	SingularRequestResourceName = "virtualmachinetemplaterequest"
	PluralRequestResourceName   = "virtualmachinetemplaterequests"
)
