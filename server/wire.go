package main

import (
	"time"

	"greyrelease.example.com/hooks/composite"
	"greyrelease.example.com/hooks/greyrelease"
)

// newHook is the hook of GreyReleases.
func newHook() hook {
	return hook{sync: syncRelease, customize: customizeRelease}
}

func syncRelease(body []byte, now time.Time, out *answer) error {
	request, err := greyrelease.DecodeSync(body)
	if err != nil {
		return err
	}
	out.subject = subject(&request.Parent.Metadata)
	response, err := greyrelease.Sync(request, greyrelease.Measurements{}, now)
	if err != nil {
		return err
	}
	out.transitions = response.Transitions
	out.body, err = response.Encode()
	return err
}

func customizeRelease(body []byte, _ time.Time, out *answer) error {
	request, err := greyrelease.DecodeCustomize(body)
	if err != nil {
		return err
	}
	out.subject = subject(&request.Parent.Metadata)
	response, err := greyrelease.Customize(request)
	if err != nil {
		return err
	}
	out.body, err = response.Encode()
	return err
}

func subject(m *composite.Metadata) string { return m.Namespace + "/" + m.Name }
