-- One page of the activity log, newest first. Empty subject and actor pick all.
select id, at, actor, action, subject, detail, reason
  from activity_log
 where ($1 = '' or subject = $1) and ($2 = '' or actor = $2) and ($3 = 0 or id < $3)
 order by id desc limit $4
