select activity_id, count(*) from orders where status = 'held' and ($1 = '' or activity_id = $1) group by 1
