-- What operators may want to look at: those that sell first, then drafts, then those
-- closed in the last week.
select id from activities
 where state <> 'closed' or updated_at > now() - interval '7 days'
 order by case state when 'open' then 0 when 'paused' then 0 when 'draft' then 1 else 2 end, last_epoch desc, id
 limit $1
