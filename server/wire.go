package main

import (
	"time"

	"greyrelease.example.com/hooks/composite"
	"greyrelease.example.com/hooks/greyrelease"
)

// newHook is the hook of GreyReleases, with what measures for it; nil for nothing.
func newHook(m *measuring) hook {
	return hook{sync: m.syncRelease, customize: customizeRelease}
}

func (m *measuring) syncRelease(body []byte, now time.Time, out *answer) error {
	request, err := greyrelease.DecodeSync(body)
	if err != nil {
		return err
	}
	out.subject = subject(&request.Parent.Metadata)
	out.have = m.have(out.subject)
	response, err := greyrelease.Sync(request, out.have, now)
	if err != nil {
		return err
	}
	m.start(out.subject, response.Queries)
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
